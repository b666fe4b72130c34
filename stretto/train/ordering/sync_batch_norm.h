#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/options/batchnorm.h>
#include <torch/nn/pimpl.h>

#include <memory>

#include "stretto/train/ordering/model_collectives.h"

namespace stretto {

/// Batch normalization over the batches of all ranks together: what BatchNorm1d or BatchNorm2d makes of the whole
/// batch, values, gradients and running statistics, whatever the sizes of the ranks' parts (Ioffe and Szegedy, "Batch
/// Normalization", 2015; over all ranks: Peng et al., "MegDet", 2018). Input: [sample][channel], [sample][channel][x]
/// or [sample][channel][y][x], float32 or float64.
///
/// In training each forward pass sums 2 × channels + 1 numbers over the ranks, and each backward pass 2 × channels
/// where the input needs a gradient, float64: a rank waits there for all others. The gradients of weight and bias are
/// those of this rank's samples, to be reduced as all gradients are. In evaluation nothing is summed.
class SyncBatchNormImpl final : public torch::nn::Cloneable<SyncBatchNormImpl>, public SumsOverRanks {
 public:
  explicit SyncBatchNormImpl(const torch::nn::BatchNormOptions& options);
  explicit SyncBatchNormImpl(std::int64_t channels) : SyncBatchNormImpl(torch::nn::BatchNormOptions(channels)) {}

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  /// Throws UsageError for an input of another shape, before plug_in(), and where all ranks together have but one
  /// number a channel. Throws Failure as ModelCollectives::Sum does.
  at::Tensor forward(const at::Tensor& input);

  torch::nn::BatchNormOptions options;   ///< as given
  at::Tensor weight, bias;               ///< [channel]; undefined where the options are not affine
  at::Tensor running_mean, running_var;  ///< [channel]; undefined where the options do not track them
  at::Tensor num_batches_tracked;        ///< a number; likewise

 private:
  at::Tensor normalize(const at::Tensor& input);
  void track(const at::Tensor& mean, const at::Tensor& variance, double count);
};

TORCH_MODULE(SyncBatchNorm);

/// Has every module of `model` that sums over the ranks do it by `collectives`. Returns how many there are.
int plug_in(torch::nn::Module& model, const std::shared_ptr<ModelCollectives>& collectives);

/// By what the modules of `model` sum; null where none does, or none has been told. Throws UsageError where two of them
/// sum by different ones.
std::shared_ptr<ModelCollectives> collectives_of(const torch::nn::Module& model);

}  // namespace stretto
