#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "stretto/collective/partial_allreduce.h"
#include "stretto/train/recipes/recipe.h"

namespace stretto {

/// A rank's own steps between two full rounds where `full_every` batches of all ranks lie between them, 0: none.
std::uint64_t own_steps(std::uint64_t full_every, int ranks);

/// Rounds of all ranks, full × world: a round waits for all ranks but those that have no more batches, and counts the
/// batches that they have made since the one before. What it sums beside that is its cargo: models to be averaged
/// (ModelAverage), or what ranks hold for one another, of which all have to know.
///
/// A rank hands its part over as a deposit that one round takes. A step that it passes (Recipe::pass()) is a step, and
/// no batch.
class FullRounds {
 public:
  /// The data that the rounds sum.
  struct Cargo {
    std::vector<BucketSpec> buckets;
    /// Fills in this rank's part, after the steps `since` the last round.
    std::function<void(Contribution& mine, const DepositInfo& since)> load;
    /// Takes the sum, where some rank has brought something.
    std::function<void(Driver& driver, const RoundResult& result)> unload;
  };
  /// Whether a round says how many steps it ends, beside the batches in them. Costs a bucket of one number more.
  enum class StepCount { none, told };
  /// Makes its PartialAllreduce. Throws as that does.
  FullRounds(const RecipeContext& context, Cargo cargo, StepCount step_count = StepCount::none);

  /// The rank has taken a step of its own, over `samples` samples, which took so long to compute after it had waited.
  void note_step(std::uint64_t samples, Duration computed, Duration waited);
  /// The rank has passed a step, before which it had waited so long.
  void note_pass(Duration waited);
  /// Steps of this rank since its last hand_over(), with those it has passed.
  std::uint64_t steps() const { return steps_; }

  /// Deposits this rank's part as it is now, also one without steps of its own since the last.
  void hand_over();
  /// As of the recipe: Recipe::exchange(), finish(), drain(). The last two hand over first what there is.
  Result<int> exchange(Driver& driver, TimePoint deadline);
  Result<int> finish(Driver& driver, TimePoint deadline);  ///< as exchange()
  Result<bool> drain(Driver& driver);                      ///< as exchange()
  /// exchange() without waiting. Returns whether it is done; if not, call it again.
  Result<bool> try_exchange(Driver& driver);

  /// As of the recipe: Recipe::go_on_after().
  void go_on_after(std::uint64_t batches) { batches_ = batches; }
  /// Batches that all ranks had made at the last round, since the start of the job.
  std::uint64_t batches() const { return batches_; }
  /// Steps that the last round ended, those of all ranks, with those they passed. Requires: StepCount::told.
  std::uint64_t steps_ended() const { return steps_ended_; }
  const std::shared_ptr<PartialAllreduce>& collective() const { return collective_; }  ///< for Recipe::collectives()

 private:
  void apply(Driver& driver, const RoundResult& result);

  RoundListener& listener_;
  const Cargo cargo_;
  const StepCount step_count_;
  const std::shared_ptr<PartialAllreduce> collective_;
  std::uint64_t batches_;
  std::uint64_t steps_ = 0;                        // since the last hand_over()
  std::uint64_t steps_ended_ = 0;                  // of all ranks, by the last round
  DepositInfo since_{.batches = 0, .samples = 0};  // the last hand_over()
};

/// The options of such rounds: they take each deposit once, in the fixed order.
PartialOptions rounds_of_all(const RecipeOptions& options);

}  // namespace stretto
