#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "stretto/predict/coarse/coarse_prediction.h"

namespace stretto {

/// The threshold ρ_T of a platform, from runs that were measured there: section 4.2.1 of Li et al., "Predicting
/// Throughput of Distributed Stochastic Gradient Descent", who take one to seven workers.
struct ThresholdFit {
  /// How well one threshold predicts the runs. Errors are |predicted / measured − 1|.
  struct Candidate {
    double rho_threshold = 0;
    double mean_error = 0;
    double max_error = 0;
    int in_order = 0;  ///< runs that are predicted with links in order
  };
  /// One of the runs, predicted by the threshold that was chosen.
  struct Run {
    std::size_t job = 0;    ///< its index
    std::size_t index = 0;  ///< in what is measured of that job
    AsynchronousRate predicted;
    double error = 0;
  };
  std::vector<Candidate> candidates;  ///< 0.1, 0.2, …, 1
  std::vector<Run> runs;
  double rho_threshold = 0;  ///< of least mean error; of several the middle one
  bool decided = false;      ///< whether any two candidates differ in their mean error
};

/// Predicts what was measured of all jobs with each candidate: with overlap where the job has it, else without. The
/// thresholds of the jobs are not looked at. Requires: something is measured of each job.
ThresholdFit fit_threshold(std::span<const TrainingJob> jobs);

}  // namespace stretto
