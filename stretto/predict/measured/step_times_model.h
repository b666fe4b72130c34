#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "stretto/predict/measured/step_times.h"

namespace stretto {

/// How long one rank computes, and for how many steps it stays slow. A standard normal process whose value at a step is
/// `persistence` times that of the step before, and the rest by chance (AR(1)), says which of `times` a step takes: its
/// quantile for its quantile (a Gaussian copula). So mean and tail are those of the times, however long they last.
struct RankTimesModel {
  double persistence = 0;    ///< φ, from −1 to 1; 0: each step by itself
  std::vector<float> times;  ///< seconds, ascending; at least one
};

/// Step times for any number of ranks like those of a few that were measured. Each rank is one of theirs, of which all
/// have their turn before one comes again, in an order that is drawn; but what ranks had in common in a step is not
/// kept: they are slow independently of each other. StepTimes::resampled() keeps that, for as many ranks as were
/// measured.
struct StepTimesModel {
  std::vector<RankTimesModel> ranks;  ///< at least one

  /// Of every rank by itself. φ is 2 sin(π ρ / 6), ρ being the correlation of the ranks of its times with those of the
  /// steps after (Spearman's), for which a normal process with φ has that ρ.
  static StepTimesModel fit(const StepTimes& measured);

  /// Repeats to the bit.
  StepTimes draw(int num_ranks, std::size_t steps, std::uint64_t seed) const;
};

}  // namespace stretto
