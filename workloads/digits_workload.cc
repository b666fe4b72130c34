#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/random.h"
#include "workloads/digits_data.h"
#include "workloads/workload_parts.h"

namespace stretto {
namespace {

/// Units of each hidden layer.
std::vector<std::int64_t> widths(std::string_view workload) {
  if (workload == "digits-wide") return {384, 384, 384};
  return {64};
}

struct ImageBatch {
  at::Tensor pixels;  // [image][pixel]
  at::Tensor labels;  // [image]
};

ImageBatch gather(const DigitsDataset::Images& images, std::span<const std::uint32_t> samples) {
  constexpr std::size_t kPixels = DigitsDataset::kPixels;
  const auto batch = static_cast<std::int64_t>(samples.size());
  ImageBatch out{at::empty({batch, DigitsDataset::kPixels}, at::kFloat), at::empty({batch}, at::kLong)};
  float* pixels = out.pixels.mutable_data_ptr<float>();
  auto* labels = out.labels.mutable_data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    std::memcpy(pixels + i * kPixels, images.pixels.data() + samples[i] * kPixels, kPixels * sizeof(float));
    labels[i] = images.labels[samples[i]];
  }
  return out;
}

class Perceptron final : public DigitsModel {
 public:
  Perceptron(std::span<const std::int64_t> widths, std::uint64_t seed) {
    Random random(seed);
    std::int64_t inputs = DigitsDataset::kPixels;
    const auto layer = [&](const std::string& name, std::int64_t outputs) {
      torch::nn::Linear made = register_module(name, torch::nn::Linear(inputs, outputs));
      draw_parameters(*made, 1 / std::sqrt(static_cast<double>(inputs)), random);
      inputs = outputs;
      return made;
    };
    for (const std::int64_t width : widths) {
      hidden_.push_back(layer(hidden_.empty() ? "hidden" : text("hidden", hidden_.size() + 1), width));
    }
    output_ = layer("output", DigitsDataset::kClasses);
  }

  at::Tensor scores(const at::Tensor& pixels, const BeforeLayer& before) override {
    at::Tensor features = pixels;
    for (torch::nn::Linear& hidden : hidden_) {
      before(*hidden);
      features = hidden->forward(features).relu();
    }
    before(*output_);
    return output_->forward(features);
  }

 private:
  std::vector<torch::nn::Linear> hidden_;
  torch::nn::Linear output_{nullptr};
};

class DigitsWorkload final : public Workload {
 public:
  explicit DigitsWorkload(std::shared_ptr<const DigitsDataset> data) : Workload(data), digits_(*data) {}

  std::shared_ptr<torch::nn::Module> make_model(std::uint64_t seed) const override {
    if (info().name == "branches") return make_branches(seed);
    if (info().name == "digits-conv") return make_small_convolutions(seed);
    if (info().name == "resnet-small") return make_small_resnet(seed);
    return std::make_shared<Perceptron>(widths(info().name), seed);
  }

  Evaluation evaluate(torch::nn::Module& model, Split split) const override {
    const at::NoGradGuard no_gradients;
    std::vector<std::uint32_t> all(digits_.size(split));
    std::iota(all.begin(), all.end(), 0U);
    const ImageBatch batch = gather(digits_.images(split), all);
    const bool training = model.is_training();
    model.eval();
    const at::Tensor scores = own<DigitsModel>(model).scores(batch.pixels, no_hook);
    model.train(training);
    Hits hits(DigitsDataset::kClasses);
    count_hits(hits, scores, batch.labels);
    return {at::cross_entropy_loss(scores, batch.labels).item<double>(), hits.accuracy(), hits.top5()};
  }

 private:
  at::Tensor compute_loss(torch::nn::Module& model, std::span<const std::uint32_t> samples,
                          const BeforeLayer& before) const override {
    const ImageBatch batch = gather(digits_.images(Split::train), samples);
    return own<DigitsModel>(model).loss(batch.pixels, batch.labels, before);
  }

  const DigitsDataset& digits_;  // owned by data()
};

}  // namespace

at::Tensor DigitsModel::loss(const at::Tensor& pixels, const at::Tensor& labels, const BeforeLayer& before) {
  return at::cross_entropy_loss(scores(pixels, before), labels);
}

std::unique_ptr<Workload> make_digits_workload(std::shared_ptr<const DigitsDataset> data) {
  return std::make_unique<DigitsWorkload>(std::move(data));
}

}  // namespace stretto
