#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "stretto/collective/partial_allreduce.h"
#include "stretto/train/recipes/recipe.h"
#include "stretto/train/recipes/state_average.h"

namespace stretto {

/// The rounds in which the models of the ranks are averaged, full × world: an average waits for all ranks but those
/// that have no more batches, and counts the batches that went into the models since the one before. A recipe that
/// averages in other ways, too, has these for its checkpoints and its end.
///
/// A rank hands its model over as a deposit that one round takes. Every rank replaces its own by the average over the
/// ranks that brought one, so ranks that have run out of batches neither hold the others up nor weigh on it. It counts
/// each model once, or, with Normalize::samples, as often as it has seen samples since the last. Optimizer states and
/// buffers as StateAverage says.
class ModelAverage {
 public:
  /// Makes its PartialAllreduce. Throws as that does.
  explicit ModelAverage(const RecipeContext& context);

  /// The rank has taken a step of its own, over `samples` samples, which took so long to compute after it had waited.
  void note_step(std::uint64_t samples, Duration computed, Duration waited);
  /// Steps of this rank since its last hand_over().
  std::uint64_t steps() const { return since_.batches; }

  /// Deposits the model as it is now. A rank without steps of its own since the last may do so, too: its model, which
  /// others have moved, is part of the average then.
  void hand_over();
  /// As of the recipe: Recipe::exchange(), finish(), drain(). The last two hand over first what there is.
  Result<int> exchange(Driver& driver, TimePoint deadline);
  Result<int> finish(Driver& driver, TimePoint deadline);  ///< as exchange()
  Result<bool> drain(Driver& driver);                      ///< as exchange()
  /// exchange() without waiting. Returns whether it is done; if not, call it again.
  Result<bool> try_exchange(Driver& driver);

  /// As of the recipe: Recipe::go_on_after().
  void go_on_after(std::uint64_t batches) { batches_ = batches; }
  /// Batches that all ranks had made at the last average, since the start of the job.
  std::uint64_t batches() const { return batches_; }
  const std::shared_ptr<PartialAllreduce>& collective() const { return collective_; }  ///< for Recipe::collectives()

 private:
  void apply(Driver& driver, const RoundResult& result);

  const RecipeContext context_;
  const std::shared_ptr<PartialAllreduce> collective_;
  StateAverage state_;
  const bool weighted_;
  std::uint64_t batches_;
  DepositInfo since_{.batches = 0, .samples = 0};  // the last hand_over()
};

/// Rounds that wait for all ranks and take each deposit once, in the fixed order: as ModelAverage has them.
PartialOptions rounds_of_all(const RecipeOptions& options);

/// Ends the backward pass of a rank that moves its own weights. Returns the first gradient that is not finite.
std::optional<std::string> end_own_backward(Replica& replica);

}  // namespace stretto
