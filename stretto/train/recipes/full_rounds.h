#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
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

  /// The rank has taken a step of its own.
  void note_step(const DepositInfo& step);
  /// The rank has taken such steps in a world before, which are in no round yet.
  void note_before(const DepositInfo& steps) { since_ = steps; }
  /// The rank has passed a step.
  void note_pass(const DepositInfo& step);
  /// Steps of this rank since its last hand_over(), with those it has passed.
  std::uint64_t steps() const { return steps_; }

  /// Deposits this rank's part as it is now, also one without steps of its own since the last.
  void hand_over();
  /// As of the recipe: Recipe::advance(), finish(), drain(). The last two hand over first what there is.
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

/// The average of state beside the models, in rounds of all ranks. Options: average-momentum, the optimizer's state
/// (momentum, Adam's moments); average-statistics, the running statistics of BatchNorm. Unless said otherwise both stay
/// local to each rank. One application thread.
class StateAverage {
 public:
  /// `momentum`: whether average-momentum is yes where nothing is said.
  explicit StateAverage(const RecipeContext& context, bool momentum = false);

  /// Inside the function that applies a round whose policy is full and that is not empty: on every rank, each of which
  /// waits for all. Throws Failure. Where members of the job change meanwhile it is cut off, and returns: ranks meet
  /// again at the next full round.
  void run(Driver& driver);

 private:
  Meeting& meeting_;
  const bool members_change_;
  const bool momentum_;
  const bool statistics_;
};

/// For RecipeInfo::check. Throws UsageError where the options ask for one of the two and all ranks meet at the end
/// alone, where it would change nothing. `expected`: the option that lets them meet before, as in "sync-every 10".
void check_state_average(const RecipeOptions& options, bool meet_before_the_end, std::string_view expected);

/// The full rounds in which the models of the ranks are averaged. A recipe that averages in other ways, too, has these
/// for its checkpoints and its end.
///
/// Every rank replaces its model by the average over the ranks that brought one, so ranks that have run out of batches
/// neither hold the others up nor weigh on it. It counts each model once, or, with Normalize::samples, as often as it
/// has seen samples since the last; a rank that has passed all its steps since then weighs nothing then, and else as
/// any other. A rank may hand its model over without steps of its own since the last round, too: others have moved it.
/// Optimizer states and buffers as StateAverage says.
class ModelAverage final : public FullRounds {
 public:
  /// Whether RoundListener::apart() is told: a pass over the model more.
  enum class Distance { none, told };
  /// Throws as FullRounds. `momentum`: as of StateAverage.
  explicit ModelAverage(const RecipeContext& context, StepCount step_count = StepCount::none, bool momentum = false,
                        Distance distance = Distance::none);
};

/// For a ModelAverage in which the model of a rank without batches counts, too, and each model once.
RecipeContext with_each_model_once(RecipeContext context);

/// Ends the backward pass of a rank that moves its own weights. Returns the first gradient that is not finite.
std::optional<std::string> end_own_backward(Replica& replica);

}  // namespace stretto
