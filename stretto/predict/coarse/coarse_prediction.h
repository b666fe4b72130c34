#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "stretto/predict/model/training_job.h"

namespace stretto {

/// Asynchronous training with servers: rates of the whole job, in steps per second.
struct AsynchronousRate {
  double in_order = 0;      ///< eq 3: links that serve one transfer after the other
  double utilization = 0;   ///< ρ: the largest of a link, in the solution with links in order
  double equal_shares = 0;  ///< eq 4: links that all transfers share
  LinkSharing chosen = LinkSharing::in_order;
  double steps_per_second = 0;     ///< eq 5: the one that was chosen
  double examples_per_second = 0;  ///< of it
};

/// Synchronous training: seconds of one step.
struct SynchronousStep {
  double equal_shares = 0;  ///< eq 7: server, links that all transfers share
  double in_order = 0;      ///< eq 8: server, links that serve one transfer after the other
  double mean = 0;          ///< eq 9: the mean of both
  double overlap = 0;       ///< eq 10: the same, with transfers while layers are computed
  double ring = 0;          ///< eq 11: allreduce in a ring, without a server
};

/// The predictor that the paper compares itself with: Zheng, Xu, Li, Zhou and Liu, "Cynthia" (ICPP 2019), as section 5
/// of the paper describes its assumptions. What Cynthia says about the processors of servers is not in it.
struct CynthiaBaseline {
  double asynchronous = 0;  ///< steps per second: a transfer takes m, however many there are; none is overlapped
  double synchronous = 0;   ///< seconds a step: 2Km on links that all share, all of it beside the computation
};

/// The throughput of a job by formulas, from a few totals of one worker: eqs 1 to 11 of Li et al., "Predicting
/// Throughput of Distributed Stochastic Gradient Descent" (IEEE TPDS 33(11), 2022). docs/lab/prediction.md has them,
/// and how good they are.
struct CoarsePrediction {
  std::int64_t workers = 0;  ///< K
  AsynchronousRate basic;    ///< transfers and computation one after the other
  AsynchronousRate overlap;  ///< eq 6: transfers while layers are computed
  SynchronousStep synchronous;
  double examples_in_step = 0;  ///< of all workers together
  CynthiaBaseline cynthia;
  bool exact = true;               ///< asynchronous rates by the whole recursion; false: approximated
  std::vector<std::string> notes;  ///< the job's, and what the prediction leaves out; each a sentence
};

/// Requires: a job as read_job() lets it through. Takes the time of solve() (closed_network.h), twice.
CoarsePrediction predict_coarse(const TrainingJob& job);

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
