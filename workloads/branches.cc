#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/modules/linear.h>

#include <cmath>

#include "stretto/base/random.h"
#include "workloads/digits_data.h"
#include "workloads/workload_parts.h"

namespace stretto {
namespace {

constexpr std::int64_t kUnits = 64;
constexpr std::int64_t kSecondEvery = 10;  // steps
constexpr double kSecondShare = 0.3;       // of the loss

class Branches final : public DigitsModel {
 public:
  explicit Branches(std::uint64_t seed) {
    Random random(seed);
    const auto layer = [&](const char* name, std::int64_t inputs, std::int64_t outputs) {
      torch::nn::Linear made = register_module(name, torch::nn::Linear(inputs, outputs));
      draw_parameters(*made, 1 / std::sqrt(static_cast<double>(inputs)), random);
      return made;
    };
    hidden_ = layer("hidden", DigitsDataset::kPixels, kUnits);
    digit_ = layer("digit", kUnits, DigitsDataset::kClasses);
    odd_ = layer("odd", kUnits, 2);
    steps_ = register_buffer("steps", at::zeros({}, at::kLong));
  }

  at::Tensor scores(const at::Tensor& pixels, const BeforeLayer& before) override {
    return digit_scores(features(pixels, before), before);
  }

  at::Tensor loss(const at::Tensor& pixels, const at::Tensor& labels, const BeforeLayer& before) override {
    const at::Tensor shared = features(pixels, before);
    at::Tensor digit = at::cross_entropy_loss(digit_scores(shared, before), labels);
    if (!is_training() || !at::GradMode::is_enabled()) return digit;
    steps_.add_(1);
    if (steps_.item<std::int64_t>() % kSecondEvery != 0) return digit;
    before(*odd_);
    return digit + kSecondShare * at::cross_entropy_loss(odd_->forward(shared), labels.remainder(2));
  }

 private:
  at::Tensor features(const at::Tensor& pixels, const BeforeLayer& before) {
    before(*hidden_);
    return hidden_->forward(pixels).relu();
  }
  at::Tensor digit_scores(const at::Tensor& features, const BeforeLayer& before) {
    before(*digit_);
    return digit_->forward(features);
  }

  torch::nn::Linear hidden_{nullptr}, digit_{nullptr}, odd_{nullptr};
  at::Tensor steps_;  // of training, this rank's
};

}  // namespace

std::shared_ptr<DigitsModel> make_branches(std::uint64_t seed) {
  return std::make_shared<Branches>(seed);
}

}  // namespace stretto
