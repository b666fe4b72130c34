#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace stretto::command {

/// How fast something is predicted.
struct PredictionSpeed {
  std::string name;  ///< for --json: "events_16000_per_s"
  std::string what;  ///< for a person: "events, 16000 pending"
  double value = 0;
  std::string unit;  ///< "M/s", "ms", "s"
};

/// The jobs that time_predictions() predicts. PredictionSpeed::name and what speak of the sizes that stand here.
struct PredictionLoad {
  std::size_t events = 4'000'000;
  int workers = 1024;  ///< of the simulation of steps
  int layers = 160;
  int steps = 100;
  int ranks = 64;  ///< of the jobs whose settings are compared
  int replicas = 200;
};

/// Measures the parts of prediction one after the other on one core, each as the median of `repeats` runs: the queue of
/// events, times of ranks without events, the simulation of steps, formulas, the
/// comparison of settings.
std::vector<PredictionSpeed> time_predictions(int repeats, const PredictionLoad& load = {});

}  // namespace stretto::command
