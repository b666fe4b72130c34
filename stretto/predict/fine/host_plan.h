#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stretto/base/random.h"
#include "stretto/predict/fine/step_graph.h"
#include "stretto/predict/model/training_job.h"

namespace stretto {

/// The plan that all hosts of a class with the same number of GPUs share: the operations of a step, and how long each
/// takes in each of the steps that were profiled.
class HostPlan {
 public:
  /// Requires: a class with layers; `rules.gpus` workers of it on the host.
  HostPlan(const TrainingJob& job, int worker_class, const StepRules& rules);

  const StepGraph& graph() const { return graph_; }
  int worker_class() const { return class_; }
  int gpus() const { return rules_.gpus; }
  /// How many steps were profiled.
  std::size_t profiled() const { return seconds_.size() / row_; }
  /// Of an operation that is no transfer, in the profiled step `step`.
  double seconds(const StepOperation& operation, std::size_t step) const {
    return seconds_[step * row_ + first_of(operation.kind) + static_cast<std::size_t>(operation.layer)];
  }
  /// Of a transfer; of an allreduce, what is summed.
  double bytes(const StepOperation& operation) const {
    const bool down = operation.kind == OperationKind::download;
    return operation.link_seconds / (down ? rules_.download_seconds_per_byte : rules_.upload_seconds_per_byte);
  }
  /// The operations that are uploads, in the order of the backward pass.
  std::span<const std::uint32_t> uploads() const { return uploads_; }

 private:
  std::size_t first_of(OperationKind kind) const {
    return kind == OperationKind::forward ? 0 : kind == OperationKind::backward ? row_ / 3 : row_ / 3 * 2;
  }

  int class_;
  StepRules rules_;
  StepGraph graph_;
  std::size_t row_;              // numbers of a profiled step: forward of all layers, backward, update
  std::vector<double> seconds_;  // by profiled step
  std::vector<std::uint32_t> uploads_;
};

/// Which of the steps that were profiled each worker of a host runs, step after step: drawn with replacement.
class DrawnSteps {
 public:
  DrawnSteps(const HostPlan& plan, int host, std::uint64_t seed)
      : profiled_(plan.profiled()),
        random_(seed, static_cast<std::uint64_t>(host)),
        drawn_(static_cast<std::size_t>(plan.gpus())) {}

  void next() {
    for (std::size_t& step : drawn_) step = random_.below(profiled_);
  }
  std::size_t of(int gpu) const { return drawn_[static_cast<std::size_t>(gpu)]; }

 private:
  std::size_t profiled_;
  Random random_;
  std::vector<std::size_t> drawn_;
};

/// The plans of a job's hosts, and which host has which.
struct HostPlans {
  std::vector<HostPlan> plans;
  std::vector<int> of_host;  ///< indices into `plans`
};

/// Each class fills hosts of its own, the last of them perhaps not wholly. `buckets`: StepRules::buckets. Throws
/// UsageError where a class has no layers, where workers that sum their gradients have other layers than the first
/// class, and for more hosts, cards or operations than fit into some GB.
HostPlans plan_hosts(const TrainingJob& job, bool buckets);

}  // namespace stretto
