#pragma once

#include "command/reproduce/reproductions.h"

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

}  // namespace stretto::command
