#include "stretto/predict/fine/host_plan.h"

#include <algorithm>

#include "stretto/base/error.h"

namespace stretto {

namespace {

constexpr double kMostCards = 1e6;
constexpr double kMostHosts = 1e6;
constexpr double kMostOperations = 1e8;
constexpr double kMostSteps = 1e9;  // of all workers: when each ends is kept

/// The layers of a class, each with its longest update: one that takes time in any step is an operation in all.
ProfiledStep layers_of(const WorkerClass& workers) {
  ProfiledStep layers = workers.steps.front();
  for (const ProfiledStep& step : workers.steps)
    for (std::size_t layer = 0; layer < layers.size(); ++layer)
      layers[layer].update = std::max(layers[layer].update, step[layer].update);
  return layers;
}

void require_layers(const TrainingJob& job) {
  for (std::size_t index = 0; index < job.classes.size(); ++index) {
    const WorkerClass& workers = job.classes[index];
    if (workers.steps.empty()) {
      throw UsageError(text("workers[", index, R"(] has no layers; simulating its steps needs "layers" or "profile")"));
    }
    if (job.mode != Coordination::allreduce) continue;
    const auto same = [](const Layer& a, const Layer& b) { return a.bytes == b.bytes; };
    if (!std::ranges::equal(workers.steps.front(), job.classes.front().steps.front(), same)) {
      throw UsageError(
          text("workers[", index,
               "] has layers of other sizes than workers[0]; an allreduce sums the same gradients of all workers"));
    }
  }
}

int hosts_of(const TrainingJob& job, const WorkerClass& workers) {
  return (workers.count + job.gpus_per_host - 1) / job.gpus_per_host;
}

/// Refuses what takes more than some GB: more network cards of servers or hosts, or more operations in a step of all
/// workers, counted with what each waits for, where that is as many as there are servers or GPUs.
void require_size(const TrainingJob& job) {
  const bool allreduce = job.mode == Coordination::allreduce;
  const double servers = allreduce ? 1 : job.servers;
  if (const double cards = servers * job.nics; !allreduce && cards > kMostCards) {
    throw UsageError(text("servers times nics are ", cards, " network cards; expected at most ", kMostCards));
  }
  if (const double steps = static_cast<double>(job.steps) * static_cast<double>(job.workers()); steps > kMostSteps) {
    throw UsageError(
        text(job.steps, " steps of ", job.workers(), " workers are ", steps, "; expected at most ", kMostSteps));
  }
  double hosts = 0, operations = 0;
  for (const WorkerClass& workers : job.classes) {
    const double layers = static_cast<double>(workers.steps.front().size());
    const double gpus = std::min(job.gpus_per_host, workers.count);
    hosts += hosts_of(job, workers);
    operations += layers * (2.0 * workers.count + 3 * servers * hosts_of(job, workers));
    operations += layers * servers * (2 * gpus + (job.overlap ? 1 : servers));
  }
  if (hosts > kMostHosts) {
    throw UsageError(text("the workers are on ", hosts, " hosts; expected at most ", kMostHosts));
  }
  if (operations > kMostOperations) {
    throw UsageError(text("a step of all workers is some ", operations, " operations; expected at most ",
                          kMostOperations, ": simulate fewer workers, layers or servers"));
  }
}

}  // namespace

HostPlan::HostPlan(const TrainingJob& job, int worker_class, const StepRules& rules)
    : class_(worker_class),
      rules_(rules),
      graph_(layers_of(job.classes[static_cast<std::size_t>(worker_class)]), rules),
      row_(3 * job.classes[static_cast<std::size_t>(worker_class)].steps.front().size()) {
  const WorkerClass& workers = job.classes[static_cast<std::size_t>(worker_class)];
  const double servers = rules.servers;
  for (const ProfiledStep& step : workers.steps) {
    for (const Layer& layer : step) seconds_.push_back(layer.forward);
    for (const Layer& layer : step) seconds_.push_back(layer.backward);
    for (const Layer& layer : step) seconds_.push_back(layer.update / servers);
  }
  for (std::uint32_t index = 0; index < graph_.operations().size(); ++index)
    if (graph_.operations()[index].kind == OperationKind::upload) uploads_.push_back(index);
}

HostPlans plan_hosts(const TrainingJob& job, bool buckets) {
  require_layers(job);
  require_size(job);
  double hosts = 0;
  for (const WorkerClass& workers : job.classes) hosts += hosts_of(job, workers);

  StepRules rules{.allreduce = job.mode == Coordination::allreduce, .overlap = job.overlap, .buckets = buckets};
  if (rules.allreduce) {
    // A ring sends 2(K − 1)/K of the gradients through each host's cards.
    const double rate = std::min(job.bandwidth, job.flow_cap.value_or(job.bandwidth));
    rules.upload_seconds_per_byte = 2 * (hosts - 1) / hosts / (rate * job.nics);
  } else {
    rules.servers = job.servers;
    rules.download_seconds_per_byte = rules.upload_seconds_per_byte = 1 / job.bandwidth;
  }

  HostPlans result;
  for (std::size_t index = 0; index < job.classes.size(); ++index) {
    const int workers = job.classes[index].count;
    const auto own =
        static_cast<std::ptrdiff_t>(result.plans.size());  // the first of this class, which has two at most
    for (int placed = 0; placed < workers;) {
      rules.gpus = std::min(job.gpus_per_host, workers - placed);
      const auto known = std::find_if(result.plans.begin() + own, result.plans.end(),
                                      [&](const HostPlan& plan) { return plan.gpus() == rules.gpus; });
      result.of_host.push_back(static_cast<int>(known - result.plans.begin()));
      if (known == result.plans.end()) result.plans.emplace_back(job, static_cast<int>(index), rules);
      placed += rules.gpus;
    }
  }
  return result;
}

}  // namespace stretto
