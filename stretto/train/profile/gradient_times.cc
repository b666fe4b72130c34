#include "stretto/train/profile/gradient_times.h"

#include <ATen/Tensor.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

#include <algorithm>

namespace stretto {
namespace {

using torch::autograd::variable_list;

class NoteTime final : public torch::autograd::FunctionPostHook {
 public:
  NoteTime(std::shared_ptr<std::vector<TimePoint>> times, std::size_t parameter)
      : times_(std::move(times)), parameter_(parameter) {}

  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    (*times_)[parameter_] = SteadyClock().now();
    return outputs;
  }

 private:
  const std::shared_ptr<std::vector<TimePoint>> times_;
  const std::size_t parameter_;
};

}  // namespace

GradientTimes::GradientTimes(const TrainedParameters& trained)
    : times_(std::make_shared<std::vector<TimePoint>>(trained.parameters.size(), TimePoint::never())) {
  for (std::size_t i = 0; i < trained.parameters.size(); ++i) {
    auto accumulator = torch::autograd::impl::grad_accumulator(trained.parameters[i].second);
    const std::uintptr_t key = accumulator->add_post_hook(std::make_unique<NoteTime>(times_, i));
    hooks_.emplace_back(std::move(accumulator), key);
  }
}

GradientTimes::~GradientTimes() {
  for (auto& [accumulator, key] : hooks_) accumulator->del_post_hook(key);
}

void GradientTimes::clear() {
  std::ranges::fill(*times_, TimePoint::never());
}

}  // namespace stretto
