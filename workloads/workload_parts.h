#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "stretto/base/random.h"
#include "workloads/hits.h"
#include "workloads/workload.h"

namespace stretto {

class DigitsDataset;
class HyperplaneDataset;
class SequenceDataset;

/// A perceptron: 64 pixels, 64 rectified units, 10 classes; 4,810 parameters. For `digits-wide` three layers of 384
/// rectified units; 324,490 parameters. For `branches` and `resnet-small` the models of digits_model.h.
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

}  // namespace stretto
