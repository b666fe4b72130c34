#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>

#include "stretto/base/random.h"
#include "workloads/hits.h"
#include "workloads/workload.h"

namespace stretto {

class DigitsDataset;
class HyperplaneDataset;
class SequenceDataset;

/// A perceptron: 64 pixels, 64 rectified units, 10 classes; 4,810 parameters. For `digits-wide` three layers of 384
/// rectified units; 324,490 parameters. For `branches` and `resnet-small` the models of make_branches() and
/// make_small_resnet().
std::unique_ptr<Workload> make_digits_workload(std::shared_ptr<const DigitsDataset> data);

/// One linear layer with a bias, 8,193 parameters, and the mean of the squared errors.
std::unique_ptr<Workload> make_hyperplane_workload(std::shared_ptr<const HyperplaneDataset> data);

/// An LSTM with 64 units, the mean of its outputs over the steps of each sequence, and a linear layer: 20,553
/// parameters for `vowels`, 22,987 for `plaid`. Batches are padded to their longest sequence.
std::unique_ptr<Workload> make_sequence_workload(std::shared_ptr<const SequenceDataset> data);

/// Draws every parameter of `layer` uniformly from [−bound, bound], in the order of its parameters. Torch's own
/// initialisation draws alike, but from a generator that differs between its versions.
void draw_parameters(torch::nn::Module& layer, double bound, Random& random);

/// Adds a batch: scores as [sample][class] in float32, labels as [sample] in int64.
void count_hits(Hits& hits, const at::Tensor& scores, const at::Tensor& labels);

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

/// A small network of AlexNet's kind on 8×8 pixels (Krizhevsky et al., "ImageNet classification with deep convolutional
/// neural networks", 2012): two convolutions of 3×3 with 16 and 32 channels, behind each a rectifier and the maximum of
/// 2×2, 64 rectified units, and a linear layer. 13,706 parameters.
std::shared_ptr<DigitsModel> make_small_convolutions(std::uint64_t seed);

/// A residual network on 8×8 pixels: a convolution, three blocks of two convolutions, all of 3×3 with 16 channels, each
/// behind it a SyncBatchNorm, and a linear layer behind the mean over the pixels (He et al., "Deep Residual Learning
/// for Image Recognition", 2016). 14,362 parameters; 14 sums over the ranks a step. Made for one rank; for several
/// Replica::model_collectives() has to be told how to sum.
std::shared_ptr<DigitsModel> make_small_resnet(std::uint64_t seed);

}  // namespace stretto
