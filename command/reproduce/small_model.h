#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "command/reproduce/reproductions.h"
#include "command/statistics/statistics.h"
#include "stretto/train/job/summary.h"

namespace stretto::command {

/// A small model with real gradients in virtual time, hard to learn apart: `digits`, of whose ten labels each rank has
/// three at most, momentum 0.9. A step takes `command.pace` for each of its eight images, a message so long that a
/// round of a group of eight takes 0.02 steps, one of 64 ranks 0.05. The mean model is evaluated after each step of all
/// ranks, or, where it is not known then, after the next round of all.
TrainOptions small_model(const ReproduceCommand& command, int ranks, double lr);

/// The time of a step without delays, before TrainOptions::time_scale.
Duration step_of(const ReproduceCommand& command);

/// The same with steps of log-normal length: of the same mean, with a deviation of 0.4 in the logarithm.
TrainOptions with_lognormal_steps(TrainOptions options, const ReproduceCommand& command);

/// The time of so many mean steps as the run has, in seconds of the run.
double seconds_of_all_steps(const TrainOptions& options);

/// Numbers read off the evaluations that a run has made meanwhile, the one of the model at its end included.

/// The training loss so many seconds after the start: on the line between the evaluations before and after. That of the
/// first evaluation before it, of the last one after it. Requires: a training loss at the end.
double train_loss_at(const RunSummary& run, double seconds);

/// When the accuracy on test data has first been `accuracy` or more, on the line from the evaluation before; nothing
/// where it never was.
std::optional<double> seconds_to_accuracy(const RunSummary& run, double accuracy);

/// Of numbers above 0 of the runs of two groups, seed by seed: the geometric mean, with its 95 % interval. Requires: as
/// many of each.
Interval ratio_of(const std::vector<double>& group, const std::vector<double>& other);

/// A statement about two groups of an experiment, by a number of each run of which less is better.
struct Claim {
  enum class Kind {
    below,      ///< the ratio is below 1, with 95 % confidence
    not_above,  ///< the ratio is not above 1 with 95 % confidence: below, or within the spread
  };
  std::size_t group = 0;
  Kind kind = Kind::below;
  std::size_t other = 0;
};

/// A line for each claim: the ratio of `group` to `other`, seed by seed, as a geometric mean with its 95 % interval,
/// and whether the claim holds. With a single run a group nothing is claimed. Requires: `values` as the groups and
/// their runs; all above 0.
Judgement judge_claims(const Experiment& finished, const std::string& of_what, std::span<const Claim> claims,
                       std::span<const std::vector<double>> values);

}  // namespace stretto::command
