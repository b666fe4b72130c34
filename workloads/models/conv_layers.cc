#include "workloads/models/conv_layers.h"

#include <ATen/Tensor.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/max_pool2d.h>

#include "stretto/base/error.h"

namespace stretto {
namespace {

at::Tensor pooled(const at::Tensor& input, BranchShape::Pool pool) {
  switch (pool) {
    case BranchShape::Pool::none: return input;
    case BranchShape::Pool::average: return at::avg_pool2d(input, {3, 3}, {1, 1}, {1, 1});
    case BranchShape::Pool::largest: return at::max_pool2d(input, {3, 3}, {1, 1}, {1, 1});
    case BranchShape::Pool::largest_halved: return at::max_pool2d(input, {3, 3}, {2, 2});
  }
  return input;
}

}  // namespace

NormalizedConvolution::NormalizedConvolution(std::int64_t inputs, const ConvShape& shape, double eps, bool rectified)
    : rectified_(rectified) {
  torch::nn::Conv2dOptions options(inputs, shape.channels, {shape.y, shape.x});
  options.stride(shape.stride).bias(false);
  if (shape.padded) options.padding({shape.y / 2, shape.x / 2});
  conv_ = register_module("conv", torch::nn::Conv2d(options));
  norm_ = register_module("norm", torch::nn::BatchNorm2d(torch::nn::BatchNormOptions(shape.channels).eps(eps)));
}

at::Tensor NormalizedConvolution::forward(const at::Tensor& input) {
  at::Tensor output = norm_->forward(conv_->forward(input));
  return rectified_ ? output.relu_() : output;
}

InceptionModule::InceptionModule(std::int64_t inputs, const std::vector<BranchShape>& branches, double eps) {
  for (const BranchShape& shape : branches) {
    Branch& branch = branches_.emplace_back(Branch{.pool = shape.pool});
    const auto add = [&](const ConvShape& conv, std::int64_t channels) {
      return register_module(text("conv", children().size()),
                             std::make_shared<NormalizedConvolution>(channels, conv, eps));
    };
    std::int64_t channels = inputs;
    for (const ConvShape& conv : shape.convs) {
      branch.convs.push_back(add(conv, channels));
      channels = conv.channels;
    }
    for (const ConvShape& conv : shape.side_by_side) {
      branch.side_by_side.push_back(add(conv, channels));
      outputs_ += conv.channels;
    }
    if (shape.side_by_side.empty()) outputs_ += channels;
  }
}

at::Tensor InceptionModule::forward(const at::Tensor& input) {
  std::vector<at::Tensor> outputs;
  for (Branch& branch : branches_) {
    at::Tensor value = pooled(input, branch.pool);
    for (const auto& conv : branch.convs) value = conv->forward(value);
    if (branch.side_by_side.empty()) {
      outputs.push_back(value);
      continue;
    }
    std::vector<at::Tensor> parts;
    for (const auto& conv : branch.side_by_side) parts.push_back(conv->forward(value));
    outputs.push_back(at::cat(parts, 1));
  }
  return at::cat(outputs, 1);
}

at::Tensor mean_over_pixels(const at::Tensor& features) {
  return at::adaptive_avg_pool2d(features, {1, 1}).flatten(1);
}

}  // namespace stretto
