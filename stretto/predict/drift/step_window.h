#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "stretto/observe/recent_steps.h"
#include "stretto/predict/measured/step_times.h"

namespace stretto {

/// What a run's rate follows from, besides its algorithm.
struct RunInputs {
  StepTimes computed;  ///< of each rank, without what it waited
  /// Seconds of a step that no rank is spared, whoever comes last: of the ranks' times outside of computing the
  /// shortest in each step, in the mean. It holds what a round costs; the rest of these times is waiting for others.
  double round_cost = 0;

  /// For a simulation in which everything but computing takes no time.
  StepTimes occupied() const { return computed.longer_by(round_cost); }
};

/// The steps that the ranks of a run have made in some stretch of it.
class StepWindow {
 public:
  explicit StepWindow(int ranks) : steps_(static_cast<std::size_t>(ranks)) {}

  void add(int rank, std::span<const StepCost> steps);
  void clear();

  std::size_t total() const;   ///< steps of all ranks
  std::size_t fewest() const;  ///< of the rank that has the fewest
  /// At most so many steps of each rank. A rank that has made fewer than another one makes them again: where ranks do
  /// not wait for each other, a slow one has fewer in the same time. Requires: fewest() > 0.
  RunInputs inputs(std::size_t most) const;

 private:
  std::vector<std::vector<StepCost>> steps_;  // of each rank
};

}  // namespace stretto
