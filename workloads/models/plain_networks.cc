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
#include "workloads/models/image_network.h"

namespace stretto {
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

}  // namespace stretto
