#pragma once

#include "stretto/collective/scheduled_collective.h"

namespace stretto {

/// The ordinary collectives, for any number of ranks: each waits for every rank it needs something from. Persistent:
/// made once, in the same order with the same shape on every rank, run any number of times. See ScheduledCollective for
/// lifetime, threads, and what run() returns; a rank with another size, type or operation fails the first round
/// everywhere.
///
///   Allreduce sum(engine, DataType::float32, n, ReduceOp::sum);
///   EngineDriver driver(engine);
///   sum.run(driver, driver.deadline(10s), mine, total).or_throw();

/// Everybody gets the root's data. The root does not wait for the others: how far it runs ahead is up to the caller.
class Broadcast {
 public:
  Broadcast(Engine& engine, DataType type, std::uint64_t count, int root = 0);
  /// `data`: read on the root, written elsewhere.
  template <class R>
  Result<void> run(EngineDriver& driver, TimePoint deadline, R&& data) {
    return rounds_.run(driver, deadline, {is_root_ ? Argument::in(data) : Argument::out(data)});
  }

 private:
  const bool is_root_;
  ScheduledCollective rounds_;
};

/// Returns when every rank has called.
class Barrier {
 public:
  explicit Barrier(Engine& engine);
  Result<void> run(EngineDriver& driver, TimePoint deadline) { return rounds_.run(driver, deadline, {}); }

 private:
  ScheduledCollective rounds_;
};

/// Everybody gets `count` elements of each rank, in the order of ranks.
class Allgather {
 public:
  Allgather(Engine& engine, DataType type, std::uint64_t count);
  template <class Mine, class All>
  Result<void> run(EngineDriver& driver, TimePoint deadline, const Mine& mine, All&& all) {
    return rounds_.run(driver, deadline, {Argument::in(mine), Argument::out(all)});
  }

 private:
  ScheduledCollective rounds_;
};

/// Everybody gets the sum, minimum or maximum over the ranks, with the same bits in every run (protocol.md, Bits).
class Allreduce {
 public:
  Allreduce(Engine& engine, DataType type, std::uint64_t count, ReduceOp op);
  template <class Mine, class Sum>
  Result<void> run(EngineDriver& driver, TimePoint deadline, const Mine& mine, Sum&& sum) {
    return rounds_.run(driver, deadline, {Argument::in(mine), Argument::out(sum)});
  }

 private:
  ScheduledCollective rounds_;
};

}  // namespace stretto
