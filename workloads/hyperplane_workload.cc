#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mse_loss.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "stretto/base/random.h"
#include "workloads/hyperplane_data.h"
#include "workloads/workload_parts.h"

namespace stretto {
namespace {

constexpr std::uint32_t kSamplesAtOnce = 512;

class Regression final : public torch::nn::Module {
 public:
  explicit Regression(std::uint64_t seed)
      : linear_(register_module("linear", torch::nn::Linear(HyperplaneDataset::kDimensions, 1))) {
    Random random(seed);
    draw_parameters(*linear_, 1 / std::sqrt(static_cast<double>(HyperplaneDataset::kDimensions)), random);
  }

  at::Tensor forward(const at::Tensor& points, const BeforeLayer& before) {
    before(*linear_);
    return linear_->forward(points).squeeze(1);
  }

 private:
  torch::nn::Linear linear_;
};

class HyperplaneWorkload final : public Workload {
 public:
  explicit HyperplaneWorkload(std::shared_ptr<const HyperplaneDataset> data) : Workload(data), points_(*data) {}

  std::shared_ptr<torch::nn::Module> make_model(std::uint64_t seed) const override {
    return std::make_shared<Regression>(seed);
  }

  Evaluation evaluate(torch::nn::Module& model, Split split) const override {
    const at::NoGradGuard no_gradients;
    std::vector<std::uint32_t> all(points_.size(split));
    std::iota(all.begin(), all.end(), 0U);
    double loss = 0;
    for (std::size_t start = 0; start < all.size(); start += kSamplesAtOnce) {
      const std::size_t size = std::min<std::size_t>(kSamplesAtOnce, all.size() - start);
      const at::Tensor mean = squared_error(model, split, std::span(all).subspan(start, size), no_hook);
      loss += mean.item<double>() * static_cast<double>(size);
    }
    return {loss / static_cast<double>(all.size()), std::nullopt};
  }

 private:
  at::Tensor compute_loss(torch::nn::Module& model, std::span<const std::uint32_t> samples,
                          const BeforeLayer& before) const override {
    return squared_error(model, Split::train, samples, before);
  }

  at::Tensor squared_error(torch::nn::Module& model, Split split, std::span<const std::uint32_t> samples,
                           const BeforeLayer& before) const {
    constexpr std::size_t kDimensions = HyperplaneDataset::kDimensions;
    const auto batch = static_cast<std::int64_t>(samples.size());
    const at::Tensor x = at::empty({batch, HyperplaneDataset::kDimensions}, at::kFloat);
    const at::Tensor y = at::empty({batch}, at::kFloat);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      points_.copy_point(split, samples[i], x.mutable_data_ptr<float>() + i * kDimensions);
      y.mutable_data_ptr<float>()[i] = points_.target(split, samples[i]);
    }
    return at::mse_loss(own<Regression>(model).forward(x, before), y);
  }

  const HyperplaneDataset& points_;  // owned by data()
};

}  // namespace

std::unique_ptr<Workload> make_hyperplane_workload(std::shared_ptr<const HyperplaneDataset> data) {
  return std::make_unique<HyperplaneWorkload>(std::move(data));
}

}  // namespace stretto
