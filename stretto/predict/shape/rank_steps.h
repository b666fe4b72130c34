#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "stretto/predict/fine/tournament.h"
#include "stretto/predict/measured/step_times.h"
#include "stretto/predict/shape/shape_simulation.h"

namespace stretto {

/// The steps that ranks compute: who has the next batch, until when, and how long ranks have waited. Moments
/// are whole nanoseconds from the begin of the job, as on the virtual clock.
class RankSteps {
 public:
  static constexpr double kNever = Tournament::kNever;

  /// For the first `trained` of the ranks. `times` outlives it.
  RankSteps(const StepTimes& times, const ShapeJob& job, int trained);

  /// The rank, which has waited until `now`, takes a batch, and computes from then on. Returns false where none is left
  /// for it; it does not ask again.
  bool begin(int rank, double now);

  /// The end of the first step that ends, and whose it is; kNever: nobody computes.
  double next_end() const { return ends_.time(); }
  int next_rank() const { return static_cast<int>(ends_.first()); }
  /// That step is over; the rank's next begin() says how long it waited.
  void end_next();

  std::uint64_t made() const { return made_; }  ///< steps that have ended
  double waited() const { return waited_; }     ///< by all ranks, after each of their steps

 private:
  struct Rank {
    std::uint64_t left = 0;  // batches; those of a pool are nobody's
    std::size_t step = 0;
    double ended = kNever;
  };

  const StepTimes& times_;
  const bool shared_;
  std::uint64_t pool_ = 0;
  std::vector<Rank> ranks_;
  Tournament ends_;
  std::uint64_t made_ = 0;
  double waited_ = 0;
};

/// Nanoseconds, as the virtual clock counts them.
double to_moment(double seconds);

/// Batches in the rounds or versions that they have come into.
struct Applied {
  std::uint64_t batches = 0;
  std::uint64_t staleness = 0;  ///< the sum over them
  std::uint64_t staleness_max = 0;
  std::uint64_t fresh = 0, stale = 0;  ///< contributions
  std::uint64_t rounds = 0;
  std::uint64_t dropped = 0;
  double last = 0;  ///< the moment of the last
};

/// Rounds that all ranks wait for, of ranks that have as many batches each: t = max(t_self, t_peers) + cost, over
/// arrays and without an event, for nothing depends on who comes first. To the nanosecond what simulate_rounds() says
/// of them. Adds to `waited` what all ranks have waited.
Applied simulate_full_rounds(const StepTimes& times, std::uint64_t every, const ShapeJob& job, double& waited);

/// One for each kind of AlgorithmShape::exchange. Throws UsageError where the shape does not fit so many ranks.
Applied simulate_rounds(const RoundShape& shape, std::uint64_t every, RankSteps& steps, int ranks, const ShapeJob& job);
/// As simulate_rounds(). Requires: no rank has begun a step.
Applied simulate_groups(const GroupRoundShape& shape, std::uint64_t every, RankSteps& steps, int ranks,
                        const ShapeJob& job);

}  // namespace stretto
