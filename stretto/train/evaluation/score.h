#pragma once

#include <cstdint>
#include <optional>

namespace stretto {

/// How good a model is on one set of samples.
struct TaskScore {
  double loss = 0;                 ///< mean over all samples
  std::optional<double> accuracy;  ///< share classified correctly; none for regression
  std::optional<double> top5;  ///< share with the class among the five guessed first; none for five classes or fewer
};

/// A model evaluated while the run goes on.
struct EvaluationPoint {
  double seconds = 0;         ///< since the first step
  std::uint64_t batches = 0;  ///< applied before it
  bool average = true;        ///< the weights of all ranks; else rank 0's own
  TaskScore test, training;
};

}  // namespace stretto
