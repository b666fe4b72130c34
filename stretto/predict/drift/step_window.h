#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "stretto/predict/measured/step_times.h"

namespace stretto {

/// How long the ranks of a run have computed in each of their steps, in some stretch of it.
class StepWindow {
 public:
  explicit StepWindow(int ranks) : steps_(static_cast<std::size_t>(ranks)) {}

  /// Further steps of a rank, in seconds.
  void add(int rank, std::span<const float> steps);
  void clear();

  std::size_t total() const;   ///< steps of all ranks
  std::size_t fewest() const;  ///< of the rank that has the fewest
  /// At most so many steps of each rank. A rank that has made fewer than another one makes them again: where ranks do
  /// not wait for each other, a slow one has fewer in the same time. Requires: fewest() > 0.
  StepTimes times(std::size_t most) const;

 private:
  std::vector<std::vector<float>> steps_;  // of each rank
};

}  // namespace stretto
