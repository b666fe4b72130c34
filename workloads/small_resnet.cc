#include <ATen/Tensor.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/random.h"
#include "stretto/train/ordering/sync_batch_norm.h"
#include "workloads/digits_data.h"
#include "workloads/workload_parts.h"

namespace stretto {
namespace {

constexpr std::int64_t kSide = 8, kChannels = 16, kKernel = 3;
constexpr int kBlocks = 3;
static_assert(kSide * kSide == DigitsDataset::kPixels);

/// A bound of the uniform distribution with which values keep their variance through a rectified layer (He et al.,
/// "Delving Deep into Rectifiers", 2015).
double rectified_bound(std::int64_t inputs) {
  return std::sqrt(6 / static_cast<double>(inputs));
}

/// A convolution and its normalization.
struct NormalizedConv {
  torch::nn::Conv2d conv{nullptr};
  SyncBatchNorm norm{nullptr};

  at::Tensor operator()(const at::Tensor& input, const BeforeLayer& before) {
    before(*conv);
    const at::Tensor output = conv->forward(input);
    before(*norm);
    return norm->forward(output);
  }
};

class SmallResnet final : public DigitsModel {
 public:
  explicit SmallResnet(std::uint64_t seed) {
    Random random(seed);
    const auto layer = [&](const std::string& name, std::int64_t inputs) {
      NormalizedConv made;
      made.conv = register_module(
          name,
          torch::nn::Conv2d(torch::nn::Conv2dOptions(inputs, kChannels, kKernel).padding(kKernel / 2).bias(false)));
      draw_parameters(*made.conv, rectified_bound(inputs * kKernel * kKernel), random);
      made.norm = register_module(name + "_norm", SyncBatchNorm(kChannels));
      return made;
    };
    first_ = layer("first", 1);
    for (int block = 1; block <= kBlocks; ++block) {
      blocks_.push_back({layer(text("block", block, "a"), kChannels), layer(text("block", block, "b"), kChannels)});
    }
    output_ = register_module("output", torch::nn::Linear(kChannels, DigitsDataset::kClasses));
    draw_parameters(*output_, 1 / std::sqrt(static_cast<double>(kChannels)), random);
  }

  at::Tensor scores(const at::Tensor& pixels, const BeforeLayer& before) override {
    at::Tensor features = first_(pixels.view({-1, 1, kSide, kSide}), before).relu();
    for (auto& [a, b] : blocks_) features = (features + b(a(features, before).relu(), before)).relu();
    before(*output_);
    return output_->forward(features.mean({2, 3}));
  }

 private:
  struct Block {
    NormalizedConv a, b;
  };
  NormalizedConv first_;
  std::vector<Block> blocks_;
  torch::nn::Linear output_{nullptr};
};

}  // namespace

std::shared_ptr<DigitsModel> make_small_resnet(std::uint64_t seed) {
  auto model = std::make_shared<SmallResnet>(seed);
  plug_in(*model, std::make_shared<ModelCollectives>(sum_of_one_rank));
  return model;
}

}  // namespace stretto
