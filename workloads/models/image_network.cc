#include "workloads/models/image_network.h"

#include <ATen/Tensor.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/max_pool2d.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <array>
#include <vector>

#include "stretto/base/error.h"
#include "workloads/models/conv_layers.h"

namespace stretto {

std::span<const NetworkInfo> image_networks() {
  static constexpr std::array<NetworkInfo, 9> kNetworks{{
      {"ResNet-18", 11'689'512, 64, make_resnet18},
      {"ResNet-34", 21'797'672, 64, make_resnet34},
      {"ResNet-50", 25'557'032, 64, make_resnet50},
      {"ResNet-101", 44'549'160, 64, make_resnet101},
      {"ResNet-152", 60'192'808, 64, make_resnet152},
      {"AlexNet", 61'100'840, 64, make_alexnet},
      {"GoogLeNet", 6'624'904, 64, make_googlenet},
      {"Inception-v3", 27'161'264, 299, make_inception_v3},
      {"VGG16", 138'357'544, 64, make_vgg16},
  }};
  return kNetworks;
}

namespace {

constexpr double kDropped = 0.5;

/// A convolution with a bias and a rectifier, behind which may be pooling.
struct PlainConv {
  std::int64_t channels = 0, kernel = 3, stride = 1, padding = 1;
  std::int64_t pool = 0;  ///< the largest of so many pixels square, every second one; 0: no pooling
};

/// Convolutions one behind the other, and three linear layers behind the mean over parts of the image.
class PlainNetwork final : public ImageNetwork {
 public:
  /// `parts`: of the image, along each side. `dropped_first`: values are dropped before the first two linear layers,
  /// and else behind them.
  PlainNetwork(std::vector<PlainConv> shapes, std::int64_t parts, bool dropped_first)
      : shapes_(std::move(shapes)), parts_(parts), dropped_first_(dropped_first) {
    std::int64_t channels = 3;
    for (const PlainConv& shape : shapes_) {
      const auto options =
          torch::nn::Conv2dOptions(channels, shape.channels, shape.kernel).stride(shape.stride).padding(shape.padding);
      convs_.push_back(register_module(text("conv", convs_.size()), torch::nn::Conv2d(options)));
      channels = shape.channels;
    }
    const std::array<std::int64_t, 4> widths{channels * parts * parts, 4096, 4096, 1000};
    for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
      linear_.push_back(register_module(text("linear", i), torch::nn::Linear(widths[i], widths[i + 1])));
    }
  }

  at::Tensor loss(const at::Tensor& images, const at::Tensor& labels) override {
    at::Tensor features = images;
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      features = convs_[i]->forward(features).relu_();
      if (const std::int64_t pool = shapes_[i].pool; pool > 0)
        features = at::max_pool2d(features, {pool, pool}, {2, 2});
    }
    features = at::adaptive_avg_pool2d(features, {parts_, parts_}).flatten(1);
    for (const std::size_t i : {0U, 1U}) {
      if (dropped_first_) features = at::dropout(features, kDropped, is_training());
      features = linear_[i]->forward(features).relu_();
      if (!dropped_first_) features = at::dropout(features, kDropped, is_training());
    }
    return at::cross_entropy_loss(linear_[2]->forward(features), labels);
  }

 private:
  const std::vector<PlainConv> shapes_;
  const std::int64_t parts_;
  const bool dropped_first_;
  std::vector<torch::nn::Conv2d> convs_;
  std::vector<torch::nn::Linear> linear_;
};

}  // namespace

// Krizhevsky, "One Weird Trick for Parallelizing Convolutional Neural Networks", 2014.
std::shared_ptr<ImageNetwork> make_alexnet() {
  return std::make_shared<PlainNetwork>(
      std::vector<PlainConv>{{.channels = 64, .kernel = 11, .stride = 4, .padding = 2, .pool = 3},
                             {.channels = 192, .kernel = 5, .padding = 2, .pool = 3},
                             {.channels = 384},
                             {.channels = 256},
                             {.channels = 256, .pool = 3}},
      6, true);
}

// Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition", 2015.
std::shared_ptr<ImageNetwork> make_vgg16() {
  std::vector<PlainConv> shapes;
  for (const auto& [count, channels] : {std::pair{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}}) {
    for (int i = 0; i < count; ++i) shapes.push_back({.channels = channels, .pool = i + 1 == count ? 2 : 0});
  }
  return std::make_shared<PlainNetwork>(std::move(shapes), 7, false);
}

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
