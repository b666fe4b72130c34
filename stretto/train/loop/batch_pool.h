#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "stretto/dispenser/dispenser.h"
#include "stretto/train/options/distributed_options.h"

namespace stretto {

/// The batches of a job, as one rank draws them, and the log of those it has drawn. One thread.
class BatchPool {
 public:
  /// `counter` has the value `base` before any rank draws, and is nobody else's meanwhile. `start` as Dispenser's.
  /// Throws UsageError for options that do not fit.
  BatchPool(PlanOptions plan, Sharing sharing, int rank, SharedCounter& counter, std::uint64_t base,
            DispenserPosition start);

  /// The next batch of this rank, or nothing from the end on. Where members of the job change the end is that of all
  /// rounds, for which it waits: batches of a lost member may come back until then.
  std::optional<Batch> next();
  /// The same where members change and no drain is set: next() says again whether there is one, since batches of a lost
  /// member may have come back.
  void look_again() { dispenser_.look_again(); }
  /// Where members change: `drain` is called when there is no batch. Returns whether there will be none.
  void at_end(std::function<bool()> drain) { drain_ = std::move(drain); }
  /// All batches drawn so far have been handed over.
  void deposited();
  /// Of this pool, without what was before `start`.
  const RankLog& log() const { return dispenser_.log(); }

 private:
  /// A counter that begins at 0 where another one stands.
  class CounterFrom final : public SharedCounter {
   public:
    CounterFrom(SharedCounter& counter, std::uint64_t base) : counter_(counter), base_(base) {}
    std::uint64_t fetch_add(std::uint64_t amount) override { return counter_.fetch_add(amount) - base_; }

   private:
    SharedCounter& counter_;
    const std::uint64_t base_;
  };

  std::function<bool()> drain_;
  BatchPlan plan_;
  CounterFrom counter_;
  Dispenser dispenser_;
};

}  // namespace stretto
