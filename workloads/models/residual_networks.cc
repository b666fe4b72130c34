#include <ATen/Tensor.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/max_pool2d.h>
#include <torch/nn/modules/linear.h>

#include <array>

#include "stretto/base/error.h"
#include "workloads/models/conv_layers.h"
#include "workloads/models/image_network.h"

namespace stretto {
namespace {

constexpr double kResidualEps = 1e-5;

enum class BlockKind {
  basic,       // two convolutions of 3×3
  bottleneck,  // 1×1, 3×3 with the stride, and 1×1 with four times as many channels
};

class ResidualBlock final : public torch::nn::Module {
 public:
  ResidualBlock(BlockKind kind, std::int64_t inputs, std::int64_t width, std::int64_t stride) {
    const std::int64_t outputs = kind == BlockKind::basic ? width : 4 * width;
    if (kind == BlockKind::basic) {
      add(inputs, {.channels = width, .y = 3, .x = 3, .stride = stride}, true);
      add(width, {.channels = width, .y = 3, .x = 3}, false);
    } else {
      add(inputs, {.channels = width}, true);
      add(width, {.channels = width, .y = 3, .x = 3, .stride = stride}, true);
      add(width, {.channels = outputs}, false);
    }
    if (inputs != outputs || stride != 1) {
      shortcut_ = register_module(
          "shortcut", std::make_shared<NormalizedConvolution>(inputs, ConvShape{.channels = outputs, .stride = stride},
                                                              kResidualEps, false));
    }
  }

  at::Tensor forward(const at::Tensor& input) {
    at::Tensor output = input;
    for (const auto& conv : convs_) output = conv->forward(output);
    return (output + (shortcut_ ? shortcut_->forward(input) : input)).relu_();
  }

 private:
  void add(std::int64_t inputs, const ConvShape& shape, bool rectified) {
    convs_.push_back(register_module(text("conv", convs_.size()),
                                     std::make_shared<NormalizedConvolution>(inputs, shape, kResidualEps, rectified)));
  }

  std::vector<std::shared_ptr<NormalizedConvolution>> convs_;
  std::shared_ptr<NormalizedConvolution> shortcut_;
};

/// He et al., "Deep Residual Learning for Image Recognition", 2016, with the stride of a bottleneck in its 3×3
/// convolution.
class ResidualNetwork final : public ImageNetwork {
 public:
  ResidualNetwork(BlockKind kind, const std::array<int, 4>& blocks) {
    first_ = register_module("first", std::make_shared<NormalizedConvolution>(
                                          3, ConvShape{.channels = 64, .y = 7, .x = 7, .stride = 2}, kResidualEps));
    std::int64_t channels = 64, width = 64;
    for (std::size_t stage = 0; stage < blocks.size(); ++stage, width *= 2) {
      for (int block = 0; block < blocks[stage]; ++block) {
        const std::int64_t stride = stage > 0 && block == 0 ? 2 : 1;
        blocks_.push_back(register_module(text("stage", stage + 1, "_", block),
                                          std::make_shared<ResidualBlock>(kind, channels, width, stride)));
        channels = kind == BlockKind::basic ? width : 4 * width;
      }
    }
    output_ = register_module("output", torch::nn::Linear(channels, kImageClasses));
  }

  at::Tensor loss(const at::Tensor& images, const at::Tensor& labels) override {
    at::Tensor features = at::max_pool2d(first_->forward(images), {3, 3}, {2, 2}, {1, 1});
    for (const auto& block : blocks_) features = block->forward(features);
    return at::cross_entropy_loss(output_->forward(mean_over_pixels(features)), labels);
  }

 private:
  std::shared_ptr<NormalizedConvolution> first_;
  std::vector<std::shared_ptr<ResidualBlock>> blocks_;
  torch::nn::Linear output_{nullptr};
};

}  // namespace

std::shared_ptr<ImageNetwork> make_resnet18() {
  return std::make_shared<ResidualNetwork>(BlockKind::basic, std::array{2, 2, 2, 2});
}
std::shared_ptr<ImageNetwork> make_resnet34() {
  return std::make_shared<ResidualNetwork>(BlockKind::basic, std::array{3, 4, 6, 3});
}
std::shared_ptr<ImageNetwork> make_resnet50() {
  return std::make_shared<ResidualNetwork>(BlockKind::bottleneck, std::array{3, 4, 6, 3});
}
std::shared_ptr<ImageNetwork> make_resnet101() {
  return std::make_shared<ResidualNetwork>(BlockKind::bottleneck, std::array{3, 4, 23, 3});
}
std::shared_ptr<ImageNetwork> make_resnet152() {
  return std::make_shared<ResidualNetwork>(BlockKind::bottleneck, std::array{3, 8, 36, 3});
}

}  // namespace stretto
