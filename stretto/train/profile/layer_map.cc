#include "stretto/train/profile/layer_map.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
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

double sum(const std::vector<double>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0);
}

}  // namespace

LayerMap map_layers(const std::vector<Operation>& operations, const std::vector<ParameterModule>& modules) {
  return Mapper(operations, modules).map();
}

void PassShares::Stretch::add(std::vector<double> seconds) {
  traced.push_back(std::move(seconds));
  usual.clear();
  for (std::size_t layer = 0; layer < traced.front().size(); ++layer) {
    std::vector<double> sorted;
    for (const auto& trace : traced) sorted.push_back(trace[layer]);
    std::ranges::sort(sorted);
    const std::size_t count = sorted.size();
    usual.push_back((sorted[(count - 1) / 2] + sorted[count / 2]) / 2);
  }
}

PassShares::PassShares(std::vector<double> otherwise) : otherwise_(std::move(otherwise)) {
  STRETTO_CHECK(sum(otherwise_) > 0, "one number a layer, not all 0");
}

bool PassShares::in_order(const std::vector<double>& ready) const {
  double before = 0;
  for (const int layer : order_) {
    const double at = ready[static_cast<std::size_t>(layer)];
    if (!(at >= before)) return false;  // NaN, too
    before = at;
  }
  return true;
}

void PassShares::add(std::span<const PassMark> marks, const std::vector<double>& ready) {
  const std::size_t layers = otherwise_.size();
  if (between_.empty()) {
    for (std::size_t i = 0; i < layers; ++i) {
      if (!std::isnan(ready[i])) order_.push_back(static_cast<int>(i));
    }
    std::ranges::stable_sort(order_, {}, [&](int layer) { return ready[static_cast<std::size_t>(layer)]; });
    between_.resize(order_.size() + 1);
  }
  const bool usual = in_order(ready);
  const auto interval_of = [&](double at) {
    const auto over = [&](int layer) { return ready[static_cast<std::size_t>(layer)] < at; };
    return static_cast<std::size_t>(std::ranges::partition_point(order_, over) - order_.begin());
  };
  std::vector<double> all(layers, 0);
  std::vector<std::vector<double>> between(between_.size(), all);
  double before = 0;
  std::size_t unknown = 0;  // the first mark whose layer is still to be found
  int last = -1;
  const auto give = [&](std::size_t from, std::size_t to, int layer) {
    const auto index = static_cast<std::size_t>(layer);
    for (std::size_t i = from; i < to; ++i) {
      const double seconds = marks[i].at - before;
      before = marks[i].at;
      all[index] += seconds;
      if (usual) between[interval_of(marks[i].at)][index] += seconds;
    }
  };
  for (std::size_t i = 0; i < marks.size(); ++i) {
    if (marks[i].layer < 0) continue;
    last = marks[i].layer;
    give(unknown, i + 1, last);
    unknown = i + 1;
  }
  if (last >= 0) give(unknown, marks.size(), last);
  all_.add(std::move(all));
  for (std::size_t i = 0; usual && i < between.size(); ++i) between_[i].add(std::move(between[i]));
}

std::vector<double> PassShares::divide(const std::vector<double>& ready, double length) const {
  std::vector<double> seconds(otherwise_.size(), 0);
  const auto share_out = [&](double time, const std::vector<double>& by) {
    const double whole = sum(by);
    for (std::size_t i = 0; i < seconds.size(); ++i) seconds[i] += time * by[i] / whole;
  };
  const std::vector<double>& overall = sum(all_.usual) > 0 ? all_.usual : otherwise_;
  if (order_.empty() || !in_order(ready) || ready[static_cast<std::size_t>(order_.back())] > length) {
    share_out(length, overall);
    return seconds;
  }
  double before = 0;
  for (std::size_t i = 0; i < between_.size(); ++i) {
    const bool rest = i == order_.size();
    const int layer = order_[rest ? i - 1 : i];
    const double end = rest ? length : ready[static_cast<std::size_t>(layer)];
    if (sum(between_[i].usual) > 0) {
      share_out(end - before, between_[i].usual);
    } else {
      seconds[static_cast<std::size_t>(layer)] += end - before;
    }
    before = end;
  }
  return seconds;
}

}  // namespace stretto
