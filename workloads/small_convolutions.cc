#include <ATen/ops/max_pool2d.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <string>

#include "stretto/base/random.h"
#include "workloads/digits_data.h"
#include "workloads/workload_parts.h"

namespace stretto {
namespace {

constexpr std::int64_t kImageSide = 8, kFirstMaps = 16, kSecondMaps = 32, kField = 3, kPooled = 2, kHiddenUnits = 64;
constexpr std::int64_t kFeatures = kSecondMaps * (kImageSide / kPooled / kPooled) * (kImageSide / kPooled / kPooled);
static_assert(kImageSide * kImageSide == DigitsDataset::kPixels);

class SmallConvolutions final : public DigitsModel {
 public:
  explicit SmallConvolutions(std::uint64_t seed) {
    Random random(seed);
    const auto convolution = [&](const std::string& name, std::int64_t inputs, std::int64_t outputs) {
      const auto options = torch::nn::Conv2dOptions(inputs, outputs, kField).padding(kField / 2);
      return drawn(register_module(name, torch::nn::Conv2d(options)), inputs * kField * kField, random);
    };
    const auto linear = [&](const std::string& name, std::int64_t inputs, std::int64_t outputs) {
      return drawn(register_module(name, torch::nn::Linear(inputs, outputs)), inputs, random);
    };
    first_ = convolution("first", 1, kFirstMaps);
    second_ = convolution("second", kFirstMaps, kSecondMaps);
    hidden_ = linear("hidden", kFeatures, kHiddenUnits);
    output_ = linear("output", kHiddenUnits, DigitsDataset::kClasses);
  }

  at::Tensor scores(const at::Tensor& pixels, const BeforeLayer& before) override {
    at::Tensor maps = pixels.view({-1, 1, kImageSide, kImageSide});
    for (torch::nn::Conv2d* layer : {&first_, &second_}) {
      before(**layer);
      maps = at::max_pool2d((*layer)->forward(maps).relu(), kPooled);
    }
    before(*hidden_);
    const at::Tensor features = hidden_->forward(maps.flatten(1)).relu();
    before(*output_);
    return output_->forward(features);
  }

 private:
  template <class Layer>
  static Layer drawn(Layer layer, std::int64_t inputs, Random& random) {
    draw_parameters(*layer, 1 / std::sqrt(static_cast<double>(inputs)), random);
    return layer;
  }

  torch::nn::Conv2d first_{nullptr}, second_{nullptr};
  torch::nn::Linear hidden_{nullptr}, output_{nullptr};
};

}  // namespace

std::shared_ptr<DigitsModel> make_small_convolutions(std::uint64_t seed) {
  return std::make_shared<SmallConvolutions>(seed);
}

}  // namespace stretto
