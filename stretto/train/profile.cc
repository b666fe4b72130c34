#include "stretto/train/profile.h"

#include <ATen/Tensor.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <optional>
#include <string>
#include <utility>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/train/profile/autograd_graph.h"
#include "stretto/train/profile/layer_map.h"
#include "stretto/train/profile/operation_trace.h"

namespace stretto {
namespace {

TimePoint now() {
  return SteadyClock().now();
}

/// Of this process. What others do on its cores does not count.
Duration processor_time() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

struct Phase {
  TimePoint begin, end;

  double length() const { return seconds(end - begin); }
  double since_begin(TimePoint time) const { return seconds(time - begin); }
};

struct StepPhases {
  Phase forward, backward, update;
};

/// An undisturbed step: its phases, and when the gradient of each parameter was ready.
struct TimedStep {
  StepPhases phases;
  std::vector<TimePoint> ready;
};

/// The optimizer and the batches, as an ordinary loop has them.
struct Training {
  torch::optim::Optimizer& optimizer;
  const StepLoss& loss;

  /// `after_forward(loss)` and `after_backward()` run between the phases, and count for none.
  template <class AfterForward, class AfterBackward>
  StepPhases step(int number, AfterForward after_forward, AfterBackward after_backward) const {
    StepPhases phases;
    phases.forward.begin = now();
    optimizer.zero_grad();
    at::Tensor computed = loss(number);
    phases.forward.end = now();
    if (!computed.defined() || !computed.requires_grad()) {
      throw UsageError(text("the loss of step ", number, " has no gradient; expected one that the model has computed"));
    }
    after_forward(computed);
    phases.backward.begin = now();
    computed.backward();
    phases.backward.end = now();
    after_backward();
    phases.update.begin = now();
    optimizer.step();
    phases.update.end = now();
    return phases;
  }

  TimedStep timed_step(int number, GradientTimes& ready) const {
    TimedStep step;
    ready.clear();
    step.phases = this->step(
        number, [](const at::Tensor&) {}, [] {});
    step.ready = ready.times();
    return step;
  }
};

bool same_layers(const ProfiledStep& a, const ProfiledStep& b) {
  return std::ranges::equal(
      a, b, [](const Layer& one, const Layer& other) { return one.name == other.name && one.after == other.after; });
}

/// How the three phases are divided among the layers, as some traced steps show it.
class Shares {
 public:
  Shares(const LayerMap& map, const TrainedParameters& trained)
      : layers_(map.layers),
        layer_of_module_(map.layer_of_module),
        trained_(trained),
        forward_(std::vector<double>(layers_.size(), 1)),
        backward_(std::vector<double>(layers_.size(), 1)),
        update_(bytes_of(layers_)) {}

  const ProfiledStep& layers() const { return layers_; }

  /// The layer that has the parameter's bytes; −1: none, it is not used.
  int layer_of(std::size_t parameter) const {
    return layer_of_module_[static_cast<std::size_t>(trained_.module_of[parameter])];
  }

  void add_forward(const std::vector<TracedOperation>& operations, const Phase& phase, const AutogradLayers& graph) {
    std::vector<PassMark> marks;
    std::uint64_t first = 0;  // the nodes that an operation has made: from here to its own number
    for (const TracedOperation& operation : operations) {
      marks.push_back({phase.since_begin(operation.end), graph.first_layer_in(first, operation.sequence)});
      first = operation.sequence;
    }
    forward_.add(marks, none_ready());
  }

  void add_backward(const std::vector<TracedOperation>& operations, const Phase& phase,
                    const std::vector<TimePoint>& ready, const AutogradLayers& graph) {
    std::vector<PassMark> marks;
    for (const TracedOperation& operation : operations) {
      if (!operation.backward) continue;
      marks.push_back({phase.since_begin(operation.end), graph.layer_of_node(operation.sequence)});
    }
    for (std::size_t i = 0; i < ready.size(); ++i) {
      if (ready[i] != TimePoint::never()) marks.push_back({phase.since_begin(ready[i]), layer_of(i)});
    }
    std::ranges::stable_sort(marks, {}, &PassMark::at);
    backward_.add(marks, by_layer(ready, phase));
  }

  void add_update(const std::vector<TracedOperation>& operations, const Phase& phase) {
    std::vector<PassMark> marks;
    for (const TracedOperation& operation : operations) {
      const int parameter = operation.touched;
      const int layer = parameter < 0 ? -1 : layer_of(static_cast<std::size_t>(parameter));
      marks.push_back({phase.since_begin(operation.end), layer});
    }
    update_.add(marks, none_ready());
  }

  ProfiledStep divide(const TimedStep& timed) const {
    const StepPhases& phases = timed.phases;
    const auto forward = forward_.divide(none_ready(), phases.forward.length());
    const auto backward = backward_.divide(by_layer(timed.ready, phases.backward), phases.backward.length());
    const auto update = update_.divide(none_ready(), phases.update.length());
    ProfiledStep step = layers_;
    for (std::size_t i = 0; i < step.size(); ++i) {
      step[i].forward = forward[i];
      step[i].backward = backward[i];
      step[i].update = update[i];
    }
    return step;
  }

 private:
  static std::vector<double> bytes_of(const ProfiledStep& layers) {
    std::vector<double> bytes;
    for (const Layer& layer : layers) bytes.push_back(layer.bytes);
    return bytes;
  }

  std::vector<double> none_ready() const { return std::vector<double>(layers_.size(), std::nan("")); }

  /// When the last gradient of each layer was ready, since the backward pass began.
  std::vector<double> by_layer(const std::vector<TimePoint>& ready, const Phase& phase) const {
    std::vector<double> by_layer = none_ready();
    for (std::size_t i = 0; i < ready.size(); ++i) {
      if (layer_of(i) < 0 || ready[i] == TimePoint::never()) continue;
      double& last = by_layer[static_cast<std::size_t>(layer_of(i))];
      last = std::fmax(last, phase.since_begin(ready[i]));
    }
    return by_layer;
  }

  const ProfiledStep layers_;
  const std::vector<int> layer_of_module_;
  const TrainedParameters& trained_;
  PassShares forward_, backward_, update_;
};

/// A step in which each operation is timed; the first makes `shares`. Its own times count for nothing else.
void trace_step(const Training& training, int number, const TrainedParameters& trained, GradientTimes& ready,
                std::optional<Shares>& shares) {
  OperationTrace trace;
  std::optional<AutogradLayers> graph;
  std::vector<TracedOperation> forward, backward;
  const StepPhases phases = training.step(
      number,
      [&](const at::Tensor& loss) {
        forward = trace.take();
        graph.emplace(loss, trained);
        if (!shares) shares.emplace(graph->map(), trained);
        if (!same_layers(graph->map().layers, shares->layers())) {
          throw Failure({Errc::bad_input, text("step ", number,
                                               " has other layers than those before it; expected a model "
                                               "that does the same in each step")});
        }
        ready.clear();
        (void)trace.take();
      },
      [&] {
        backward = trace.take();
        for (std::size_t i = 0; i < trained.parameters.size(); ++i) {
          trace.watch(trained.parameters[i].second, static_cast<int>(i));
          trace.watch(trained.parameters[i].second.grad(), static_cast<int>(i));
        }
        (void)trace.take();
      });
  shares->add_forward(forward, phases.forward, *graph);
  shares->add_backward(backward, phases.backward, ready.times(), *graph);
  shares->add_update(trace.take(), phases.update);
}

void require_positive(const char* name, int value) {
  if (value < 1) throw UsageError(text(name, " ", value, ": expected 1 or more"));
}

}  // namespace

TrainingProfile profile_training(torch::nn::Module& model, torch::optim::Optimizer& optimizer, const StepLoss& loss,
                                 const ProfileOptions& options) {
  require_positive("warm_up", options.warm_up);
  require_positive("traced", options.traced);
  require_positive("steps", options.steps);
  const TrainedParameters trained = trained_parameters(model);
  const Training training{optimizer, loss};
  GradientTimes ready(trained);
  int number = 0;
  for (int i = 0; i < options.warm_up; ++i) (void)training.timed_step(number++, ready);
  std::optional<Shares> shares;
  for (int i = 0; i < options.traced; ++i) trace_step(training, number++, trained, ready, shares);

  std::vector<TimedStep> timed;  // divided later: one step finds the caches as the last has left them
  for (int i = 0; i < options.steps; ++i) timed.push_back(training.timed_step(number++, ready));

  TrainingProfile profile;
  for (const TimedStep& step : timed) profile.steps.push_back(shares->divide(step));
  for (std::size_t i = 0; i < trained.parameters.size(); ++i) {
    if (shares->layer_of(i) < 0) profile.unused.push_back(trained.parameters[i].first);
  }
  return profile;
}

std::vector<double> profiling_cost(torch::nn::Module& model, torch::optim::Optimizer& optimizer, const StepLoss& loss,
                                   int pairs, int steps) {
  const TrainedParameters trained = trained_parameters(model);
  const Training training{optimizer, loss};
  const auto profiled = [&] {
    GradientTimes ready(trained);
    const Duration begin = processor_time();
    std::vector<TimedStep> timed;
    for (int i = 0; i < steps; ++i) timed.push_back(training.timed_step(i, ready));
    return seconds(processor_time() - begin);
  };
  const auto plain = [&] {
    const Duration begin = processor_time();
    for (int i = 0; i < steps; ++i) {
      optimizer.zero_grad();
      at::Tensor computed = loss(i);
      computed.backward();
      optimizer.step();
    }
    return seconds(processor_time() - begin);
  };
  std::vector<double> ratios;
  (void)plain();  // the first block of all loads what later ones find
  for (int pair = 0; pair < pairs; ++pair) {
    double with = 0, without = 0;
    if (pair % 2 == 0) {
      with = profiled();
      without = plain();
    } else {
      without = plain();
      with = profiled();
    }
    ratios.push_back(with / without);
  }
  return ratios;
}

}  // namespace stretto
