#include "command/bench/ordering/timed_bookkeeping.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "command/bench/ordering/timed_plans.h"
#include "command/statistics/statistics.h"
#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/ordering/topo.h"
#include "stretto/ordering/waiting/rank_patience.h"

namespace stretto::command {

namespace {

/// One rank that is all members of its process set: what it asks of the others is answered at once.
class LonelyTopo {
 public:
  LonelyTopo() : topo_({.coordinator = {.ranks = {0}, .cycle_time = Duration(1)}}, patience_) {
    const auto& networks = counted_networks();
    const auto network = std::ranges::find(networks, std::string_view("ResNet-50"),
                                           [](const auto& it) { return std::string_view(it.name); });
    STRETTO_CHECK(network != networks.end(), "no ResNet-50 among the networks");
    graph_ = layered_graph(network->nodes, network->edges, network->gradients, 1);
    for (const auto& collective : graph_.collectives) tensors_.push_back(topo_.tensor(collective.tensor));
  }

  /// Seconds that a buffer of the step took; NaN where the step was not planned.
  double step(StepNumber step) {
    for (const TensorId tensor : tensors_) topo_.submitted(tensor, step).or_throw();
    topo_.executed(step, graph_);
    const bool planned = topo_.planned();
    const TimePoint full = clock_.now();
    topo_.step_ended(step);
    int buffers = 0;
    while (topo_.closed() <= step) buffers += act(topo_.next(clock_.now())) ? 1 : 0;
    const double taken = seconds(clock_.now() - full) / std::max(1, buffers);
    topo_.take_outcomes();
    return planned ? taken : std::nan("");
  }

 private:
  /// Whether the action was to issue a buffer.
  bool act(const OrdererAction& action) {
    using Kind = OrdererAction::Kind;
    switch (action.kind) {
      case Kind::sync:
      case Kind::broadcast:
      case Kind::minimum:
        topo_.control({.control = action.control, .words = action.words, .bytes = action.bytes, .nap = action.nap});
        return false;
      case Kind::gather: topo_.control({.control = action.control, .gathered = {action.bytes}}); return false;
      case Kind::issue: topo_.completed(action.buffer.number, {.changed = action.buffer.changed}); return true;
      case Kind::fail: throw Failure(*action.error);
      case Kind::tell:
      case Kind::sleep:
      case Kind::wait:
      case Kind::end: break;
    }
    return false;
  }

  const SteadyClock clock_;
  RankPatience patience_;
  Topo topo_;
  ExecutedGraph graph_;
  std::vector<TensorId> tensors_;
};

}  // namespace

double measure_bookkeeping(int steps) {
  LonelyTopo topo;
  std::vector<double> taken;
  StepNumber step = 0;
  while (std::isnan(topo.step(step++))) STRETTO_CHECK(step < 100, "no plan after ", step, " steps");
  for (int i = 0; i < steps; ++i) taken.push_back(topo.step(step++));
  return median(taken);
}

}  // namespace stretto::command
