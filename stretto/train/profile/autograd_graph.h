#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/train/profile/layer_map.h"

namespace torch::nn {
class Module;
}

namespace stretto {

/// The trained parameters of a model, and the modules that hold them.
struct TrainedParameters {
  std::vector<std::pair<std::string, at::Tensor>> parameters;  ///< each once, also where modules share it
  std::vector<int> module_of;                                  ///< of each parameter
  std::vector<ParameterModule> modules;
};

/// Throws UsageError where there are none.
TrainedParameters trained_parameters(const torch::nn::Module& model);

/// The layers of one forward pass, and the means to find that of an operation.
class AutogradLayers {
 public:
  /// From the graph behind `loss`, before its backward pass. Throws UsageError where that has none.
  AutogradLayers(const at::Tensor& loss, const TrainedParameters& trained);

  const LayerMap& map() const { return map_; }
  /// Of the operation whose node in the graph has this number; −1 where none has.
  int layer_of_node(std::uint64_t sequence) const;
  /// Of the first node in the graph whose number lies in [from, to); −1 where none does.
  int first_layer_in(std::uint64_t from, std::uint64_t to) const;

 private:
  LayerMap map_;
  std::vector<std::pair<std::uint64_t, int>> nodes_;  // number and layer, ascending
};

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
