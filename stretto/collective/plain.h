#pragma once

#include <memory>
#include <span>
#include <string>

#include "stretto/collective/allreduce/allreduce_way.h"
#include "stretto/collective/scheduled_collective.h"
#include "stretto/kernel/bucket.h"

namespace stretto {

/// The ordinary collectives, for any number of ranks: each waits for every rank it needs something from. Persistent:
/// made once, in the same order with the same shape on every rank, run any number of times. See ScheduledCollective for
/// lifetime, threads, and the result of run(). A rank with another size, type or operation fails the first round
/// everywhere.
///
///   EngineDriver driver(engine);
///   Allreduce sum(engine, DataType::float32, n, ReduceOp::sum);
///   sum.run(driver, driver.deadline(10s), mine, total).or_throw();

/// Base of the collectives below: a schedule that is run again and again.
class PlainCollective : public Collective {
 public:
  void abort(Driver& driver, const std::string& reason) override { rounds_.abort(driver, reason); }
  std::optional<Error> failure() const override { return rounds_.failure(); }
  std::string who_is_missing(Driver& driver, Duration timeout) override {
    return rounds_.who_is_missing(driver, timeout);
  }

 protected:
  PlainCollective(Engine& engine, Schedule schedule, std::string shape = "")
      : rounds_(engine, std::move(schedule), std::move(shape)) {}

  ScheduledCollective rounds_;
};

/// Every rank gets the root's data. The root does not wait for the others: how far it runs ahead is up to the caller.
class Broadcast final : public PlainCollective {
 public:
  Broadcast(Engine& engine, DataType type, std::uint64_t count, int root = 0);
  /// `data`: a contiguous range of `count` elements, read on the root, written elsewhere.
  template <class R>
  Result<void> run(Driver& driver, TimePoint deadline, R&& data) {
    return rounds_.run(driver, deadline, {is_root_ ? Argument::in(data) : Argument::out(data)});
  }

 private:
  const bool is_root_;
};

/// Returns when every rank has called.
class Barrier final : public PlainCollective {
 public:
  explicit Barrier(Engine& engine);
  Result<void> run(Driver& driver, TimePoint deadline) { return rounds_.run(driver, deadline, {}); }
};

/// Every rank gets `count` elements of each rank, in the order of ranks.
class Allgather final : public PlainCollective {
 public:
  Allgather(Engine& engine, DataType type, std::uint64_t count);
  /// `mine`: `count` elements, read; `all`: `count` times the number of ranks, written.
  template <class Mine, class All>
  Result<void> run(Driver& driver, TimePoint deadline, const Mine& mine, All&& all) {
    return rounds_.run(driver, deadline, {Argument::in(mine), Argument::out(all)});
  }
};

struct AllreduceCosts;

struct AllreduceOptions {
  enum class Through {
    automatic,  ///< the board where the ranks share a host's memory, else messages
    messages,   ///< a schedule over the transport, as between hosts
    exchange,   ///< the board, each rank summing for itself (ExchangeBoard)
    gather,     ///< the board, each piece summed once (FullBoard)
  };
  Through through = Through::automatic;
  /// The caller mostly fills input() and reads result(): the way is chosen for that.
  bool registered = false;
  /// Ranks at a board, in order, fewer at the last; 0: all of them. 1: messages. Otherwise several boards gather, and
  /// the first rank of each, its leader, runs a schedule with the others: as hosts would, each of them one board.
  int seats = 0;
  /// By which `automatic` chooses (allreduce/allreduce_choice.h), read when the collective is made. Null: those that
  /// the environment variable STRETTO_TUNING names a file of, or a guess. The same on every rank.
  const AllreduceCosts* costs = nullptr;
};

/// Every rank gets the sum, minimum or maximum over the ranks, with the same bits in every run and by every way
/// (docs/protocol.md, Bits). Several boards have bits of their own, the same on every rank and in every run; where the
/// seats and the number of boards are powers of two, and every board is full, they are those of all other ways.
class Allreduce final : public Collective {
 public:
  /// Throws UsageError where `options` ask for a board and the ranks share no memory, for more seats than there are
  /// ranks, or for seats that the way has no use for.
  Allreduce(Engine& engine, DataType type, std::uint64_t count, ReduceOp op, AllreduceOptions options = {});
  ~Allreduce() override;

  /// `mine`: read; `sum`: written, may be the same memory. Contiguous ranges of `count` elements of the type; a range
  /// of others throws UsageError. Errc::timeout, lost_peer, aborted, bad_input: see ScheduledCollective::run().
  template <class Mine, class Sum>
  Result<void> run(Driver& driver, TimePoint deadline, const Mine& mine, Sum&& sum) {
    return way_->run(driver, deadline, Argument::in(mine), Argument::out(sum));
  }

  /// The same from memory that others can read, without a copy: fill input<T>(), run, read result<T>(). The input is
  /// the caller's to write between two runs, the result is there until the next. Requires: T is the type.
  template <class T>
  std::span<T> input() {
    return {reinterpret_cast<T*>(way_->input()), checked_count(kDataTypeOf<T>)};
  }
  Result<void> run(Driver& driver, TimePoint deadline) { return way_->run(driver, deadline); }
  template <class T>
  std::span<const T> result() {
    return {reinterpret_cast<const T*>(way_->result()), checked_count(kDataTypeOf<T>)};
  }

  void abort(Driver& driver, const std::string& reason) override { way_->abort(driver, reason); }
  std::optional<Error> failure() const override { return way_->failure(); }
  std::string who_is_missing(Driver& driver, Duration timeout) override {
    return way_->who_is_missing(driver, timeout);
  }

  /// Which way was chosen, and why, in words.
  const std::string& explanation() const { return explanation_; }

 private:
  std::uint64_t checked_count(DataType type) const;

  const BucketSpec bucket_;
  std::string explanation_;
  std::unique_ptr<AllreduceWay> way_;
};

}  // namespace stretto
