#pragma once

#include <functional>
#include <vector>

#include "stretto/train/profile/training_profile.h"

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace stretto {

/// Hands out the loss of batch `step`, a scalar to call backward() on: all that a step does before its backward pass.
using StepLoss = std::function<at::Tensor(int step)>;

/// Trains the model for some steps and measures what they take, layer by layer: one worker's part of a job that
/// `stretto predict` then asks about any number of workers. A layer is a module that holds parameters itself, named as
/// named_parameters() has it, with the operations behind it that have none; what each reads from is found in autograd's
/// graph, branches included. Steps are those of an ordinary loop: zero_grad(), loss, backward(), step(). Batches are
/// numbered from 0. The model is as trained afterwards.
///
/// A step that counts is disturbed by two readings of the clock a parameter at most: phases are timed as wholes, and a
/// hook behind each parameter's accumulation notes when its gradient is ready. `traced` steps before them show how the
/// time in between is divided.
///
/// On the CPU, in the calling thread, and in one at a time. Throws UsageError for a model without trained parameters, a
/// loss without a gradient, and options below 1; Failure (Errc::bad_input) for a model whose layers differ from step to
/// step.
TrainingProfile profile_training(torch::nn::Module& model, torch::optim::Optimizer& optimizer, const StepLoss& loss,
                                 const ProfileOptions& options = {});

/// Measures the cost of profiling: trains in pairs of blocks of `steps` steps on the same batches, one block as
/// profile_training() measures steps that count, one without, in turns first. Returns of each pair the processor time
/// with over that without: what else runs on the machine disturbs neither. Requires: `pairs` and `steps` above 0.
/// Throws as profile_training().
std::vector<double> profiling_cost(torch::nn::Module& model, torch::optim::Optimizer& optimizer, const StepLoss& loss,
                                   int pairs, int steps);

}  // namespace stretto
