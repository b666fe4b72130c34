#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "stretto/collective/allreduce/allreduce_way.h"
#include "stretto/collective/base/argument.h"
#include "stretto/collective/base/collective.h"
#include "stretto/collective/base/scheduled_collective.h"
#include "stretto/engine/driver.h"
#include "stretto/kernel/bucket.h"

namespace stretto {

/// \file
/// The ordinary collectives, for any number of ranks: each waits for every rank it needs something from. Persistent:
/// made once, in the same order with the same shape on every rank, run any number of times. See
/// stretto::ScheduledCollective for lifetime, threads, and the result of run(). A rank with another size, type or
/// operation fails the first round everywhere.
///
///     EngineDriver driver(engine);
///     Allreduce sum(engine, DataType::float32, n, ReduceOp::sum);
///     sum.run(driver, driver.deadline(10s), mine, total).or_throw();

/// Base of the ordinary collectives but Allreduce: a schedule that is run again and again.
class PlainCollective : public Collective {
 public:
  void abort(Driver& driver, const Error& why) override { rounds_.abort(driver, why); }
  std::optional<Error> failure() const override { return rounds_.failure(); }
  std::string who_is_missing(Driver& driver, Duration timeout) override {
    return rounds_.who_is_missing(driver, timeout);
  }

 protected:
  /// As ScheduledCollective's.
  PlainCollective(Engine& engine, Schedule schedule, const std::string& shape = "")
      : rounds_(engine, std::move(schedule), shape) {}

  ScheduledCollective rounds_;  ///< runs the schedule
};

/// Every rank gets the root's data. The root does not wait for the others: how far it runs ahead is up to the caller.
/// A binomial tree: ranks − 1 messages in all, of the whole array each, ⌈log₂ ranks⌉ steps.
class Broadcast final : public PlainCollective {
 public:
  /// `count` elements of `type` from rank `root`. Throws UsageError for a root outside the job, and for more than
  /// kMaxBufferBytes.
  Broadcast(Engine& engine, DataType type, std::uint64_t count, int root = 0);
  /// `data`: a contiguous range of `count` elements, read on the root, written elsewhere; a range of others throws
  /// UsageError. Errors: see ScheduledCollective::run().
  template <class R>
  Result<void> run(Driver& driver, TimePoint deadline, R&& data) {
    return rounds_.run(driver, deadline, {is_root_ ? Argument::in(data) : Argument::out(data)});
  }

 private:
  const bool is_root_;
};

/// Returns when every rank has called. By dissemination (Hensgen, Finkel and Manber, *Two algorithms for barrier
/// synchronization*, 1988): ⌈log₂ ranks⌉ messages a rank, without a body.
class Barrier final : public PlainCollective {
 public:
  /// In the same order as other collectives on every rank.
  explicit Barrier(Engine& engine);
  /// Waits for all ranks. Errors: see ScheduledCollective::run().
  Result<void> run(Driver& driver, TimePoint deadline) { return rounds_.run(driver, deadline, {}); }
};

/// Every rank gets `count` elements of each rank, in the order of ranks. By Bruck's algorithm without its rotation
/// (Bruck et al., *Efficient algorithms for all-to-all communications in multiport message-passing systems*, IEEE TPDS
/// 8(11), 1997): at most 2⌈log₂ ranks⌉ messages a rank, and (ranks − 1)·`count` elements.
class Allgather final : public PlainCollective {
 public:
  /// `count` elements of `type` from each rank. Throws UsageError where those of all ranks exceed kMaxArrayBytes.
  Allgather(Engine& engine, DataType type, std::uint64_t count);
  /// `mine`: `count` elements, read; `all`: `count` times the number of ranks, written. Contiguous ranges; one of
  /// another size or type throws UsageError. Errors: see ScheduledCollective::run().
  template <class Mine, class All>
  Result<void> run(Driver& driver, TimePoint deadline, const Mine& mine, All&& all) {
    return rounds_.run(driver, deadline, {Argument::in(mine), Argument::out(all)});
  }
};

/// Every rank gets the sum, minimum, maximum or bitwise AND over the ranks, with the same bits in every run and by
/// every way (docs/protocol.md, Bits). Several boards have bits of their own, the same on every rank and in every run;
/// where the seats and the number of boards are powers of two, and every board is full, they are those of all other
/// ways.
class Allreduce final : public Collective {
 public:
  /// `count` elements of `type` from each rank, made one by `op`. Throws UsageError where the type has no such
  /// operation (reduces()), where `options` ask for a board and the ranks share no memory, for more seats than there
  /// are ranks, for seats that the way has no use for, or for more than kMaxArrayBytes; Failure (Errc::unavailable)
  /// where there is too little shared memory, with the bytes needed.
  Allreduce(Engine& engine, DataType type, std::uint64_t count, ReduceOp op, AllreduceOptions options = {});
  /// Between two rounds. In the middle of one by messages the engine steps no more (Engine::remove()).
  ~Allreduce() override;

  /// `mine`: read; `sum`: written, may be the same memory. Contiguous ranges of `count` elements of the type; a range
  /// of others throws UsageError. Errc::timeout, lost_peer, aborted, bad_input: see ScheduledCollective::run().
  template <class Mine, class Sum>
  Result<void> run(Driver& driver, TimePoint deadline, const Mine& mine, Sum&& sum) {
    return way_->run(driver, deadline, Argument::in(mine), Argument::out(sum));
  }

  /// `count` elements to fill for the run() without ranges, in memory that other ranks can read without a copy. The
  /// caller's to write between two runs. Throws UsageError where T is not the type.
  template <class T>
  std::span<T> input() {
    return {reinterpret_cast<T*>(way_->input()), checked_count(kDataTypeOf<T>)};
  }
  /// The same from input() to result().
  Result<void> run(Driver& driver, TimePoint deadline) { return way_->run(driver, deadline); }
  /// `count` elements: what the last run() without ranges gave, until the next. Throws UsageError where T is not the
  /// type.
  template <class T>
  std::span<const T> result() {
    return {reinterpret_cast<const T*>(way_->result()), checked_count(kDataTypeOf<T>)};
  }

  void abort(Driver& driver, const Error& why) override { way_->abort(driver, why); }
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
