#include "stretto/train/profile/autograd_graph.h"

#include <ATen/Tensor.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cctype>

#include "stretto/base/error.h"
#include "stretto/train/ordering/graph_recorder.h"

namespace stretto {
namespace {

using torch::autograd::AccumulateGrad;
using torch::autograd::Node;

/// "AddmmBackward0": "addmm".
std::string operation_name(const Node& node) {
  std::string name = node.name();
  name = name.substr(0, name.find("Backward"));
  for (char& letter : name) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return name;
}

/// How many numbers the operation has put out, in its first output.
std::int64_t size_of(const Node& node) {
  if (node.num_inputs() == 0 || node.input_metadata(0).is_nested_tensor()) return 0;
  std::int64_t size = 1;
  for (const c10::SymInt& length : node.input_metadata(0).shape_as_dim_vector()) {
    size *= length.maybe_as_int().value_or(0);
  }
  return size;
}

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

TrainedParameters trained_parameters(const torch::nn::Module& model) {
  TrainedParameters trained;
  std::unordered_map<std::string, int> module_at;
  std::unordered_map<const void*, bool> seen;
  for (const auto& item : model.named_parameters()) {
    const at::Tensor& tensor = item.value();
    if (!tensor.defined() || !tensor.requires_grad() || tensor.numel() == 0) continue;
    if (!seen.emplace(tensor.unsafeGetTensorImpl(), true).second) continue;
    const std::string& name = item.key();
    const auto dot = name.rfind('.');
    const std::string module = dot == std::string::npos ? name : name.substr(0, dot);
    const auto found = module_at.emplace(module, static_cast<int>(trained.modules.size()));
    if (found.second) trained.modules.push_back({.name = module});
    trained.modules[static_cast<std::size_t>(found.first->second)].bytes += static_cast<double>(tensor.nbytes());
    trained.parameters.emplace_back(name, tensor);
    trained.module_of.push_back(found.first->second);
  }
  if (trained.parameters.empty()) throw UsageError("the model has no parameter that requires a gradient");
  return trained;
}

AutogradLayers::AutogradLayers(const at::Tensor& loss, const TrainedParameters& trained) {
  if (loss.grad_fn() == nullptr) throw UsageError("the loss is a parameter itself; expected one that was computed");
  std::unordered_map<const void*, int> module_of;
  for (std::size_t i = 0; i < trained.parameters.size(); ++i) {
    module_of.emplace(trained.parameters[i].second.unsafeGetTensorImpl(), trained.module_of[i]);
  }
  const std::vector<Node*> order = walk_autograd(loss.grad_fn().get()).nodes;
  std::unordered_map<const Node*, int> place;
  std::vector<Operation> operations;
  std::vector<std::int64_t> sizes;
  for (const Node* node : order) {
    Operation operation;
    std::int64_t size = 0;
    if (const auto* leaf = dynamic_cast<const AccumulateGrad*>(node)) {
      const auto found = module_of.find(leaf->variable.unsafeGetTensorImpl());
      if (found == module_of.end()) continue;  // somebody else's; nothing of the model
      operation.module = found->second;
      size = leaf->variable.numel();
    } else {
      operation.name = operation_name(*node);
      for (const auto& edge : node->next_edges()) {
        const auto input = place.find(edge.function.get());
        if (input != place.end()) operation.inputs.push_back(input->second);
      }
      size = size_of(*node);
      operation.reshapes = node->num_outputs() == 1 && operation.inputs.size() == 1 &&
                           size == sizes[static_cast<std::size_t>(operation.inputs.front())];
    }
    place.emplace(node, static_cast<int>(operations.size()));
    operations.push_back(std::move(operation));
    sizes.push_back(size);
  }
  map_ = map_layers(operations, trained.modules);
  if (map_.layers.empty()) throw UsageError("the loss does not depend on any parameter of the model");
  for (const Node* node : order) {
    const auto found = place.find(node);
    if (found == place.end() || dynamic_cast<const AccumulateGrad*>(node) != nullptr) continue;
    const int layer = map_.layer_of[static_cast<std::size_t>(found->second)];
    if (layer >= 0) nodes_.emplace_back(node->sequence_nr(), layer);
  }
  std::ranges::sort(nodes_);
}

int AutogradLayers::layer_of_node(std::uint64_t sequence) const {
  return first_layer_in(sequence, sequence + 1);
}

int AutogradLayers::first_layer_in(std::uint64_t from, std::uint64_t to) const {
  const auto found = std::ranges::lower_bound(nodes_, std::pair(from, -1));
  return found == nodes_.end() || found->first >= to ? -1 : found->second;
}

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
