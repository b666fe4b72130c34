#pragma once

#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/train/profile/autograd_graph.h"

namespace stretto {

/// When the gradient of each parameter was ready in the last backward pass. It hooks on behind the accumulation of each
/// gradient, where DistributedDataParallel does, too: hooks of modules are called at other moments for the first layer,
/// and cost a small network a tenth of its step. The hooks go with it.
class GradientTimes {
 public:
  explicit GradientTimes(const TrainedParameters& trained);
  ~GradientTimes();
  GradientTimes(const GradientTimes&) = delete;
  GradientTimes& operator=(const GradientTimes&) = delete;

  /// Before each backward pass: nothing is ready.
  void clear();
  /// By parameter; TimePoint::never() where no gradient has come.
  const std::vector<TimePoint>& times() const { return *times_; }

 private:
  // A std::shared_ptr, or an intrusive one, by the version of Torch.
  using Accumulator = decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));

  const std::shared_ptr<std::vector<TimePoint>> times_;  // shared with the hooks, which may outlive this in a graph
  std::vector<std::pair<Accumulator, std::uintptr_t>> hooks_;
};

}  // namespace stretto
