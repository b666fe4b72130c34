#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/kernel/bucket.h"
#include "stretto/predict/shape/algorithm_shape.h"
#include "stretto/train/recipes/recipe.h"

namespace stretto {

/// How the outer model of DiLoCo moves by what a round has brought.
struct OuterOptimizerOptions {
  double lr = 0.7;        ///< of the outer step; 1, without momentum, is plain averaging
  double momentum = 0.9;  ///< Nesterov's, from 0 to below 1
};

/// The outer optimizer of DiLoCo: gradient descent with Nesterov's momentum (nesterov_step() in flat_math.h), over a
/// model in flat buckets that the caller owns. Every rank has one and feeds it the same rounds, so that all have the
/// same bits. One thread.
class OuterOptimizer {
 public:
  /// Throws UsageError for a momentum outside [0, 1), or a rate that is not a number above 0.
  OuterOptimizer(std::vector<BucketSpec> buckets, OuterOptimizerOptions options);

  /// Moves bucket `bucket` of the model by the pseudo-gradient sum / divisor. Each bucket once a round.
  void step(int bucket, std::span<std::byte> model, std::span<const std::byte> sum, double divisor);

  /// The velocities of all buckets, one after another, as they lie in memory.
  std::string state() const;
  /// Takes over what state() of one over the same buckets gave. Throws Failure (Errc::bad_input) for another length.
  void set_state(std::string_view state);
  /// The same from one over the same buckets that is not used any more.
  void go_on_from(OuterOptimizer& before) { velocity_.swap(before.velocity_); }
  /// Memory held.
  std::uint64_t bytes() const;

 private:
  const std::vector<BucketSpec> buckets_;
  const OuterOptimizerOptions options_;
  std::vector<std::vector<std::byte>> velocity_;  // of each bucket
};

/// Local SGD: each rank takes RecipeOptions::local_steps steps of its own, then the models of all ranks are averaged,
/// full × world. The parameters are averaged; the optimizer's state (momentum) and buffers as StateAverage says.
///
/// A rank hands its model over as a deposit that one round takes. Every rank replaces its own by the average over the
/// ranks that brought one, so ranks that have run out of batches neither hold the others up nor weigh on the average.
/// The average counts each model once, or, with Normalize::samples, as often as it has seen samples since the last.
/// With one local step and plain SGD it equals sync up to rounding. Option `post-local`: one local step until so many
/// batches of all ranks have been applied (Lin et al., "Don't Use Large Mini-Batches, Use Local SGD", ICLR 2020).
/// Under another policy than full, and where members of the job change: make_local_by_policy().
std::unique_ptr<Recipe> make_local(const RecipeContext& context);
/// RecipeInfo::check: throws UsageError for no local step, and as check_state_average().
void check_local(const RecipeOptions& options, int ranks);
/// RecipeInfo::shape; none with `post-local`.
std::optional<AlgorithmShape> local_shape(const RecipeOptions& options, int ranks);

/// "quorum:4", "solo", "deadline:6,20ms", as Policy::parse() takes them; empty: full.
Policy phase_policy(const std::string& argument, int ranks, int quorum);

/// DiLoCo (Douillard et al., "DiLoCo: Distributed Low-Communication Training of Language Models", 2023, algorithm 1),
/// under any policy: each rank takes RecipeOptions::local_steps steps of its own, deposits by how much its weights have
/// moved (a pseudo-gradient, of the size of the model), and every rank moves the outer model by the average of what the
/// round has brought, with Nesterov's momentum. Then it begins the next steps with the outer model. In a partial round
/// the ranks that have come do not wait for the others: a late rank's pseudo-gradient goes into a later round, as does
/// a late gradient under eager-SGD, and the rank goes on from the newest outer model. What is promised:
/// collective/outer_phases.h. All ranks make the same outer steps, to the bit, and end with the same weights.
///
/// The sum of a round is divided by the number of ranks (Normalize::ranks), by the phases that are in it, batches /
/// local_steps (Normalize::contributors), or each pseudo-gradient counts by its samples (Normalize::samples).
///
/// Options: `outer-lr`, `outer-momentum`, `keep` (the weights go on from where they are, and take the outer model at
/// full rounds only; the outer step is then a plain average unless said otherwise), `full-every` (batches between full
/// rounds), and those of StateAverage for the state of the inner optimizer.
///
/// With one local step, an outer rate of 1 and no outer momentum, full and plain SGD, it equals sync up to rounding.
std::unique_ptr<Recipe> make_diloco(const RecipeContext& context);
/// RecipeInfo::check: throws UsageError for an outer momentum outside [0, 1), an outer rate that is not above 0, no
/// local step, and for `keep` where every round is full.
void check_diloco(const RecipeOptions& options, int ranks);

/// Local SGD with a quorum of models, or another policy under which a round does not wait for all: make_diloco() with
/// an outer step that is the plain average over the ranks that have brought something. So a round averages the models
/// of the ranks that have come, each carried over to the newest average: average + the rank's own steps. A late rank
/// goes on from the newest average; its own steps since the one it had come from are in the average of a later round.
/// Under policy full that is the average of all models, up to rounding, and own steps can be carried to another world.
std::unique_ptr<Recipe> make_local_by_policy(const RecipeContext& context);
/// RecipeInfo::shape.
std::optional<AlgorithmShape> diloco_shape(const RecipeOptions& options, int ranks);

}  // namespace stretto
