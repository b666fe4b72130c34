#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>

#include "workloads/workload.h"

namespace stretto {

/// A classifier of the images of digits, whose grey values lie in rows, [image][64].
class DigitsModel : public torch::nn::Module {
 public:
  /// The score of each digit, [image][10]. `before` as Workload::loss() has it.
  virtual at::Tensor scores(const at::Tensor& pixels, const BeforeLayer& before) = 0;
  /// The training loss of a batch, a mean over its images. `labels`: [image], int64.
  virtual at::Tensor loss(const at::Tensor& pixels, const at::Tensor& labels, const BeforeLayer& before);
};

/// A perceptron of 64 rectified units with two heads: one says which digit it is, the other one whether it is odd. The
/// second head is part of the loss in every tenth training step alone, the first of them the tenth, and its parameters
/// get no gradient in the others. So the executed graph changes. 4,940 parameters; a buffer counts the steps.
std::shared_ptr<DigitsModel> make_branches(std::uint64_t seed);

/// A residual network on 8×8 pixels: a convolution, three blocks of two convolutions, all of 3×3 with 16 channels, each
/// behind it a SyncBatchNorm, and a linear layer behind the mean over the pixels (He et al., "Deep Residual Learning
/// for Image Recognition", 2016). 14,362 parameters; 14 sums over the ranks a step. Made for one rank; for several
/// Replica::model_collectives() has to be told how to sum.
std::shared_ptr<DigitsModel> make_small_resnet(std::uint64_t seed);

}  // namespace stretto
