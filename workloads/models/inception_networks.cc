#include <ATen/Tensor.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/max_pool2d.h>
#include <torch/nn/modules/linear.h>

#include <vector>

#include "stretto/base/error.h"
#include "workloads/models/conv_layers.h"
#include "workloads/models/image_network.h"

namespace stretto {
namespace {

using Pool = BranchShape::Pool;

constexpr double kInceptionEps = 1e-3;

std::shared_ptr<NormalizedConvolution> convolution(std::int64_t inputs, const ConvShape& shape) {
  return std::make_shared<NormalizedConvolution>(inputs, shape, kInceptionEps);
}

/// Modules one behind the other. Registers each with the network.
class Modules {
 public:
  Modules(torch::nn::Module& network, std::int64_t inputs) : network_(network), channels_(inputs) {}

  void add(const std::vector<BranchShape>& branches) {
    modules_.push_back(network_.register_module(text("module", ++registered_),
                                                std::make_shared<InceptionModule>(channels_, branches, kInceptionEps)));
    channels_ = modules_.back()->outputs();
  }
  std::int64_t channels() const { return channels_; }
  std::size_t size() const { return modules_.size(); }
  /// Through modules [from, to).
  at::Tensor forward(at::Tensor value, std::size_t from, std::size_t to) const {
    for (std::size_t i = from; i < to; ++i) value = modules_[i]->forward(value);
    return value;
  }

 private:
  torch::nn::Module& network_;
  std::int64_t channels_;
  int registered_ = 0;
  std::vector<std::shared_ptr<InceptionModule>> modules_;
};

/// The largest of `pixels` square, every second one, also where the last square is not whole.
at::Tensor halved(const at::Tensor& input, std::int64_t pixels) {
  return at::max_pool2d(input, {pixels, pixels}, {2, 2}, {0, 0}, {1, 1}, true);
}

/// Szegedy et al., "Going Deeper with Convolutions", 2015, with batch normalization, and 3×3 pixels in the place of
/// 5×5.
class GoogLeNet final : public ImageNetwork {
 public:
  GoogLeNet() : modules_(*this, 192) {
    first_ = register_module("first", convolution(3, {.channels = 64, .y = 7, .x = 7, .stride = 2}));
    second_ = register_module("second", convolution(64, {.channels = 64}));
    third_ = register_module("third", convolution(64, {.channels = 192, .y = 3, .x = 3}));
    add(64, 96, 128, 16, 32, 32);
    add(128, 128, 192, 32, 96, 64);
    add(192, 96, 208, 16, 48, 64);
    add(160, 112, 224, 24, 64, 64);
    add(128, 128, 256, 24, 64, 64);
    add(112, 144, 288, 32, 64, 64);
    add(256, 160, 320, 32, 128, 128);
    add(256, 160, 320, 32, 128, 128);
    add(384, 192, 384, 48, 128, 128);
    output_ = register_module("output", torch::nn::Linear(modules_.channels(), kImageClasses));
  }

  at::Tensor loss(const at::Tensor& images, const at::Tensor& labels) override {
    at::Tensor features = halved(first_->forward(images), 3);
    features = halved(third_->forward(second_->forward(features)), 3);
    features = halved(modules_.forward(features, 0, 2), 3);
    features = halved(modules_.forward(features, 2, 7), 2);
    features = modules_.forward(features, 7, 9);
    const at::Tensor means = at::dropout(mean_over_pixels(features), 0.2, is_training());
    return at::cross_entropy_loss(output_->forward(means), labels);
  }

 private:
  /// Channels: of the branch of 1×1; of that of 3×3, before and behind; of that of 5×5; behind the pooling.
  void add(std::int64_t one, std::int64_t before_three, std::int64_t three, std::int64_t before_five, std::int64_t five,
           std::int64_t pooled) {
    modules_.add({{.convs = {{.channels = one}}},
                  {.convs = {{.channels = before_three}, {.channels = three, .y = 3, .x = 3}}},
                  {.convs = {{.channels = before_five}, {.channels = five, .y = 3, .x = 3}}},
                  {.pool = Pool::largest, .convs = {{.channels = pooled}}}});
  }

  std::shared_ptr<NormalizedConvolution> first_, second_, third_;
  Modules modules_;
  torch::nn::Linear output_{nullptr};
};

/// Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", 2016.
class InceptionV3 final : public ImageNetwork {
 public:
  InceptionV3() : modules_(*this, 192) {
    const auto add_first = [&](std::int64_t inputs, const ConvShape& shape) {
      first_.push_back(register_module(text("first", first_.size()), convolution(inputs, shape)));
    };
    add_first(3, {.channels = 32, .y = 3, .x = 3, .stride = 2, .padded = false});
    add_first(32, {.channels = 32, .y = 3, .x = 3, .padded = false});
    add_first(32, {.channels = 64, .y = 3, .x = 3});
    add_first(64, {.channels = 80});
    add_first(80, {.channels = 192, .y = 3, .x = 3, .padded = false});
    for (const std::int64_t pooled : {32, 64, 64}) add_a(pooled);
    add_b();
    for (const std::int64_t inner : {128, 160, 160, 192}) add_c(inner);
    before_head_ = modules_.size();
    const std::int64_t channels = modules_.channels();
    head_first_ = register_module("head_first", convolution(channels, {.channels = 128}));
    head_second_ =
        register_module("head_second", convolution(128, {.channels = channels, .y = 5, .x = 5, .padded = false}));
    head_ = register_module("head", torch::nn::Linear(channels, kImageClasses));
    add_d();
    for (int i = 0; i < 2; ++i) add_e();
    output_ = register_module("output", torch::nn::Linear(modules_.channels(), kImageClasses));
  }

  at::Tensor loss(const at::Tensor& images, const at::Tensor& labels) override {
    at::Tensor features = images;
    for (std::size_t i = 0; i < first_.size(); ++i) {
      features = first_[i]->forward(features);
      if (i == 2 || i == 4) features = at::max_pool2d(features, {3, 3}, {2, 2});
    }
    features = modules_.forward(features, 0, before_head_);
    const at::Tensor seen =
        mean_over_pixels(head_second_->forward(head_first_->forward(at::avg_pool2d(features, {5, 5}, {3, 3}))));
    const at::Tensor aside = at::cross_entropy_loss(head_->forward(seen), labels);
    features = modules_.forward(features, before_head_, modules_.size());
    const at::Tensor means = at::dropout(mean_over_pixels(features), 0.5, is_training());
    return at::cross_entropy_loss(output_->forward(means), labels) + 0.4 * aside;
  }

 private:
  // The modules of the paper's figures 5, 6 and 7, and those between them that halve the image.
  void add_a(std::int64_t pooled) {
    const ConvShape three{.channels = 96, .y = 3, .x = 3};
    modules_.add({{.convs = {{.channels = 64}}},
                  {.convs = {{.channels = 48}, {.channels = 64, .y = 5, .x = 5}}},
                  {.convs = {{.channels = 64}, three, three}},
                  {.pool = Pool::average, .convs = {{.channels = pooled}}}});
  }
  void add_b() {
    const auto halving = [](std::int64_t channels) {
      return ConvShape{.channels = channels, .y = 3, .x = 3, .stride = 2, .padded = false};
    };
    modules_.add({{.convs = {halving(384)}},
                  {.convs = {{.channels = 64}, {.channels = 96, .y = 3, .x = 3}, halving(96)}},
                  {.pool = Pool::largest_halved}});
  }
  void add_c(std::int64_t inner) {
    const auto wide = [](std::int64_t channels) { return ConvShape{.channels = channels, .y = 1, .x = 7}; };
    const auto high = [](std::int64_t channels) { return ConvShape{.channels = channels, .y = 7, .x = 1}; };
    modules_.add({{.convs = {{.channels = 192}}},
                  {.convs = {{.channels = inner}, wide(inner), high(192)}},
                  {.convs = {{.channels = inner}, high(inner), wide(inner), high(inner), wide(192)}},
                  {.pool = Pool::average, .convs = {{.channels = 192}}}});
  }
  void add_d() {
    const ConvShape wide{.channels = 192, .y = 1, .x = 7}, high{.channels = 192, .y = 7, .x = 1};
    modules_.add(
        {{.convs = {{.channels = 192}, {.channels = 320, .y = 3, .x = 3, .stride = 2, .padded = false}}},
         {.convs = {{.channels = 192}, wide, high, {.channels = 192, .y = 3, .x = 3, .stride = 2, .padded = false}}},
         {.pool = Pool::largest_halved}});
  }
  void add_e() {
    const std::vector<ConvShape> both = {{.channels = 384, .y = 1, .x = 3}, {.channels = 384, .y = 3, .x = 1}};
    modules_.add({{.convs = {{.channels = 320}}},
                  {.convs = {{.channels = 384}}, .side_by_side = both},
                  {.convs = {{.channels = 448}, {.channels = 384, .y = 3, .x = 3}}, .side_by_side = both},
                  {.pool = Pool::average, .convs = {{.channels = 192}}}});
  }

  std::vector<std::shared_ptr<NormalizedConvolution>> first_;
  Modules modules_;
  std::size_t before_head_ = 0;  // modules
  std::shared_ptr<NormalizedConvolution> head_first_, head_second_;
  torch::nn::Linear head_{nullptr}, output_{nullptr};
};

}  // namespace

std::shared_ptr<ImageNetwork> make_googlenet() {
  return std::make_shared<GoogLeNet>();
}
std::shared_ptr<ImageNetwork> make_inception_v3() {
  return std::make_shared<InceptionV3>();
}

}  // namespace stretto
