#include "stretto/train/profile/layer_map.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/predict/model/training_job.h"

namespace stretto {
namespace {

constexpr int kNone = -1;

class Mapper {
 public:
  Mapper(const std::vector<Operation>& operations, const std::vector<ParameterModule>& modules)
      : operations_(operations), modules_(modules), uses_(modules.size()), opened_(modules.size(), kNone) {}

  LayerMap map() {
    for (std::size_t i = 0; i < operations_.size(); ++i) place(i);
    return result();
  }

 private:
  void place(std::size_t i) {
    const Operation& here = operations_[i];
    weights_of_.push_back(here.module);
    layer_of_.push_back(kNone);
    if (here.module != kNone) return;
    if (here.reshapes && here.inputs.size() == 1 && weight_of(here.inputs.front()) != kNone) {
      weights_of_.back() = weight_of(here.inputs.front());
      note_opened(weights_of_.back(), i);
      return;
    }
    std::set<int> data, read;  // layers whose outputs it reads; modules whose parameters it does
    for (const int input : here.inputs) {
      if (weight_of(input) != kNone) {
        read.insert(weight_of(input));
        note_opened(weight_of(input), i);
      } else if (layer_of_[static_cast<std::size_t>(input)] != kNone) {
        data.insert(layer_of_[static_cast<std::size_t>(input)]);
      }
    }
    layer_of_.back() = read.empty() ? without_parameters(here, data) : of_module(read, data);
  }

  /// The module whose parameter an operation hands on; kNone where it computes something.
  int weight_of(int index) const { return weights_of_[static_cast<std::size_t>(index)]; }

  void note_opened(int module, std::size_t operation) {
    int& opened = opened_[static_cast<std::size_t>(module)];
    if (opened == kNone) opened = static_cast<int>(operation);
  }

  /// The layer of an operation that reads parameters of `read`, not empty, and the outputs of `data`.
  int of_module(const std::set<int>& read, std::set<int> data) {
    // Of several modules the one that came last is at work; the others hand their parameters over.
    const int module =
        *std::ranges::max_element(read, {}, [this](int other) { return opened_[static_cast<std::size_t>(other)]; });
    for (const int other : read) {
      auto& uses = uses_[static_cast<std::size_t>(other)];
      if (other == module) continue;
      if (uses.empty()) open(other, {});
      data.insert(uses.front());
    }
    auto& uses = uses_[static_cast<std::size_t>(module)];
    if (uses.empty()) return open(module, data);
    const int last = uses.back();
    data.erase(last);
    const bool behind = std::ranges::any_of(data, [&](int layer) { return depends(layer, last); });
    if (behind) return open(module, data);
    after_[static_cast<std::size_t>(last)].insert(data.begin(), data.end());
    return last;
  }

  int without_parameters(const Operation& here, const std::set<int>& data) {
    if (data.empty()) return kNone;
    for (const int layer : data) {
      const bool last = std::ranges::all_of(data, [&](int other) { return other == layer || depends(layer, other); });
      if (last) return layer;
    }
    return add(here.name, 0, data);
  }

  /// A use of the module behind `data`; the first has its bytes.
  int open(int module, const std::set<int>& data) {
    auto& uses = uses_[static_cast<std::size_t>(module)];
    const ParameterModule& described = modules_[static_cast<std::size_t>(module)];
    uses.push_back(add(described.name, uses.empty() ? described.bytes : 0, data));
    return uses.back();
  }

  int add(const std::string& name, double bytes, const std::set<int>& after) {
    const int count = ++named_[name];
    std::string unique = count == 1 ? name : text(name, " (", count, ")");
    while (!names_.insert(unique).second) unique += "'";  // a module may be called so
    layers_.push_back({.name = unique, .bytes = bytes});
    after_.push_back(after);
    return static_cast<int>(layers_.size()) - 1;
  }

  /// Whether `layer` reads from `other`, by way of others, too.
  bool depends(int layer, int other) const {
    std::set<int> seen;
    std::vector<int> todo = {layer};
    while (!todo.empty()) {
      const int next = todo.back();
      todo.pop_back();
      for (const int before : after_[static_cast<std::size_t>(next)]) {
        if (before == other) return true;
        if (seen.insert(before).second) todo.push_back(before);
      }
    }
    return false;
  }

  LayerMap result() {
    std::vector<Layer> layers = layers_;
    for (std::size_t i = 0; i < layers.size(); ++i) layers[i].after.assign(after_[i].begin(), after_[i].end());
    auto sorted = in_topological_order(std::move(layers));
    STRETTO_CHECK(sorted.ok(), sorted.error().message);
    LayerMap map{.layers = std::move(sorted).value()};
    std::unordered_map<std::string, int> place;
    for (const Layer& layer : map.layers) place.emplace(layer.name, static_cast<int>(place.size()));
    const auto placed = [&](int layer) {
      return layer == kNone ? kNone : place.at(layers_[static_cast<std::size_t>(layer)].name);
    };
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      const int weight = weights_of_[i];
      const bool is_weight = weight != kNone && !uses_[static_cast<std::size_t>(weight)].empty();
      map.layer_of.push_back(placed(is_weight ? uses_[static_cast<std::size_t>(weight)].front() : layer_of_[i]));
    }
    for (const auto& uses : uses_) map.layer_of_module.push_back(placed(uses.empty() ? kNone : uses.front()));
    return map;
  }

  const std::vector<Operation>& operations_;
  const std::vector<ParameterModule>& modules_;
  std::vector<int> weights_of_;         // of each operation: weight_of()
  std::vector<int> layer_of_;           // of each operation that computes something
  std::vector<std::vector<int>> uses_;  // of each module: its layers
  std::vector<int> opened_;             // of each module: the first operation that reads it
  std::vector<Layer> layers_;
  std::vector<std::set<int>> after_;  // of each layer
  std::map<std::string, int> named_;
  std::set<std::string> names_;
};

}  // namespace

LayerMap map_layers(const std::vector<Operation>& operations, const std::vector<ParameterModule>& modules) {
  return Mapper(operations, modules).map();
}

}  // namespace stretto
