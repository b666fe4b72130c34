#include "stretto/predict/fine/step_simulation.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/predict/fine/host_plan.h"
#include "stretto/predict/fine/shared_link.h"
#include "stretto/predict/fine/tournament.h"

namespace stretto {

Window measured_window(std::span<const double> ends) {
  return {ends[(ends.size() - 1) / 10], ends.back()};
}

double steady_rate(std::span<const double> ends, const Window& window) {
  const auto first = std::ranges::lower_bound(ends, window.begin);
  const auto behind = std::ranges::upper_bound(ends, window.end);
  const auto steps = static_cast<double>(behind - first - 1);
  if (steps >= 1) return steps / (*(behind - 1) - *first);
  // Slower than the window is long: at most one step ended there.
  return static_cast<double>(behind - first) / (window.end - window.begin);
}

namespace {

using Index = std::uint32_t;
constexpr Index kNone = ~Index{0};

/// What an operation of a host runs on, one at a time; behind the last the host's other GPUs.
enum Resource : int { kDownlink, kUplink, kDownWire, kUpWire, kServer, kFirstGpu };

Resource resource_of(const StepOperation& operation) {
  switch (operation.kind) {
    case OperationKind::download: return kDownlink;
    case OperationKind::upload: return kUplink;
    case OperationKind::update: return kServer;
    default: return static_cast<Resource>(kFirstGpu + operation.gpu);
  }
}

/// The operations of a host that want one resource: one runs, the others wait in the order in which they became ready.
struct Queue {
  Index running = kNone;
  Index head = kNone;
  Index tail = kNone;
  double begun = 0;
};

/// A transfer whose last byte has left the link and has yet to arrive.
struct OnWire {
  Index operation;
  double begun;
  double arrives;
};

/// An operation of the step that a host is in.
struct Progress {
  std::uint32_t waits_for;  // so many others
  Index next = kNone;       // behind it in its queue
};

struct Host {
  Host(const HostPlan& of, int number, std::uint64_t seed)
      : plan(&of), index(number), drawn(of, number, seed), queues(static_cast<std::size_t>(resources())), wires(2) {}

  int resources() const { return kFirstGpu + plan->gpus(); }
  const StepOperation& operation(Index operation) const { return plan->graph().operations()[operation]; }
  double seconds(const StepOperation& operation) const { return plan->seconds(operation, drawn.of(operation.gpu)); }
  /// Of an operation that goes on beside those of others: seconds by itself.
  double shared_work(const StepOperation& operation) const {
    return operation.kind == OperationKind::update ? seconds(operation) : operation.link_seconds;
  }
  Queue& queue(int resource) { return queues[static_cast<std::size_t>(resource)]; }
  std::deque<OnWire>& wire(int resource) { return wires[resource == kDownWire ? 0 : 1]; }

  const HostPlan* plan;
  int index;
  std::size_t first_slot = 0;
  DrawnSteps drawn;
  std::vector<Progress> progress;  // by operation
  std::vector<Queue> queues;       // by resource
  std::vector<std::deque<OnWire>> wires;
  std::size_t left = 0;         // operations of this step that are not over
  std::vector<double> ends{0};  // of its steps, behind its start
};

/// A resource that hosts share, and where its next moment stands.
struct Shared {
  std::unique_ptr<SharedLink> link;
  Resource resource;
  std::size_t slot = 0;
};

class Simulation {
 public:
  Simulation(const TrainingJob& job, const StepSimulationOptions& options);
  SimulatedSteps run();

 private:
  struct Owner {  // of a slot: a host's resource, or a shared one; neither: the allreduce
    Host* host = nullptr;
    Shared* shared = nullptr;
    int resource = 0;
  };

  bool allreduces() const { return job_.mode == Coordination::allreduce; }
  /// Where the next moment of a resource stands that the host has for itself.
  std::size_t slot(const Host& host, int resource) const {
    return host.first_slot + static_cast<std::size_t>(resource - first_own_);
  }
  static std::uint64_t order(const Host& host, int resource) {
    return (static_cast<std::uint64_t>(host.index) << 32) + static_cast<std::uint64_t>(resource);
  }
  /// Where that operation of the host goes on beside those of others; null: the host has its resource for itself.
  Shared* shared_by(const Host& host, const StepOperation& operation);

  void start_step(Host& host);
  void ready(Host& host, Index operation);
  void run_next(Host& host, int resource);
  void renew(Shared& shared);
  void end_at(Shared& shared);
  void end_at(Host& host, int resource);
  void leave_link(Host& host, Index operation, double begun);
  void arrive(Host& host, int wire);
  void join_allreduce();
  void end_allreduce();
  void over(Host& host, Index operation, double begun);
  void end_step(Host& host);
  SimulatedSteps measure() const;

  const TrainingJob& job_;
  const StepSimulationOptions& options_;
  const HostPlans plans_;
  const int first_own_;                        // of a host's resources: those before it are shared, or have no use
  std::vector<std::vector<Progress>> begins_;  // by plan: how a step begins
  std::vector<Host> hosts_;
  std::vector<Shared> shared_;  // downlinks by server and network card, uplinks likewise; the server's processor
  std::vector<Owner> owners_;   // by slot
  std::optional<Tournament> moments_;
  double now_ = 0;
  std::uint64_t operations_ = 0;

  std::size_t allreduced_ = 0;  // uploads of this step that are over
  std::size_t joined_ = 0;      // hosts that are ready for the next
  double allreduce_begun_ = 0;

  std::size_t hosts_over_ = 0;  // with this step, where all begin the next together
  const Host* done_ = nullptr;  // the first that has run all its steps
};

Simulation::Simulation(const TrainingJob& job, const StepSimulationOptions& options)
    : job_(job),
      options_(options),
      plans_(plan_hosts(job, options.buckets)),
      first_own_(options.message_latency > 0 ? kDownWire : kServer) {
  for (const HostPlan& plan : plans_.plans) {
    begins_.emplace_back();
    for (const StepOperation& operation : plan.graph().operations()) begins_.back().push_back({operation.predecessors});
  }
  hosts_.reserve(plans_.of_host.size());
  for (std::size_t host = 0; host < plans_.of_host.size(); ++host) {
    const HostPlan& plan = plans_.plans[static_cast<std::size_t>(plans_.of_host[host])];
    hosts_.emplace_back(plan, static_cast<int>(host), options.seed);
    hosts_.back().first_slot = owners_.size();
    for (int resource = first_own_; resource < hosts_.back().resources(); ++resource)
      owners_.push_back({.host = &hosts_.back(), .resource = resource});
  }

  const double cap = job.flow_cap ? std::min(1.0, *job.flow_cap / job.bandwidth) : 1;
  const int links = allreduces() ? 0 : job.servers * job.nics;
  for (const Resource direction : {kDownlink, kUplink}) {
    for (int link = 0; link < links; ++link) shared_.push_back({make_link(options.sharing, cap), direction});
  }
  if (options.server_shared) shared_.push_back({make_link(LinkSharing::equal_shares, 1), kServer});
  for (Shared& shared : shared_) {
    shared.slot = owners_.size();
    owners_.push_back({.shared = &shared});
  }
  owners_.emplace_back();
  moments_.emplace(owners_.size());
}

/// A host begins with the shard of another server than the host before it, so that hosts in step do not all go round
/// behind each other, and leaves them by the card of its number.
Shared* Simulation::shared_by(const Host& host, const StepOperation& operation) {
  const Resource resource = resource_of(operation);
  if (resource == kServer) return options_.server_shared && !allreduces() ? &shared_.back() : nullptr;
  if (resource >= kFirstGpu) return nullptr;
  const int server = (operation.shard + host.index) % job_.servers;
  const int link = server * job_.nics + host.index % job_.nics;
  return &shared_[static_cast<std::size_t>(resource == kDownlink ? link : job_.servers * job_.nics + link)];
}

SimulatedSteps Simulation::run() {
  for (Host& host : hosts_) start_step(host);
  while (!done_) {
    now_ = moments_->time();
    const Owner& owner = owners_[moments_->first()];
    if (owner.shared)
      end_at(*owner.shared);
    else if (!owner.host)
      end_allreduce();
    else if (owner.resource == kDownWire || owner.resource == kUpWire)
      arrive(*owner.host, owner.resource);
    else
      end_at(*owner.host, owner.resource);
  }
  return measure();
}

void Simulation::start_step(Host& host) {
  const StepGraph& graph = host.plan->graph();
  host.progress = begins_[static_cast<std::size_t>(plans_.of_host[static_cast<std::size_t>(host.index)])];
  host.left = graph.operations().size();
  host.drawn.next();
  for (const Index operation : graph.first()) ready(host, operation);
}

void Simulation::ready(Host& host, Index operation) {
  const Resource resource = resource_of(host.operation(operation));
  if (allreduces() && resource == kUplink) return join_allreduce();
  Queue& queue = host.queue(resource);
  (queue.head == kNone ? queue.head : host.progress[queue.tail].next) = operation;
  queue.tail = operation;
  if (queue.running == kNone) run_next(host, resource);
}

void Simulation::run_next(Host& host, int resource) {
  Queue& queue = host.queue(resource);
  queue.running = std::exchange(queue.head, host.progress[queue.head].next);
  queue.begun = now_;
  const StepOperation& operation = host.operation(queue.running);
  if (Shared* shared = shared_by(host, operation)) {
    shared->link->begin(now_, host.index, host.shared_work(operation));
    renew(*shared);
  } else {
    moments_->set(slot(host, resource), now_ + host.seconds(operation), order(host, resource));
  }
}

void Simulation::renew(Shared& shared) {
  if (shared.link->empty()) return moments_->clear(shared.slot);
  const Host& host = hosts_[static_cast<std::size_t>(shared.link->first())];
  moments_->set(shared.slot, shared.link->earliest(), order(host, shared.resource));
}

/// The host whose operation is over keeps its place at the link while it has another for it.
void Simulation::end_at(Shared& shared) {
  Host& host = hosts_[static_cast<std::size_t>(shared.link->first())];
  Queue& queue = host.queue(shared.resource);
  const Index ended = queue.running;
  const double begun = queue.begun;
  const bool stays = queue.head != kNone && shared_by(host, host.operation(queue.head)) == &shared;
  if (stays) {
    queue.running = std::exchange(queue.head, host.progress[queue.head].next);
    queue.begun = now_;
    shared.link->finish(now_, host.shared_work(host.operation(queue.running)));
  } else {
    queue.running = kNone;
    shared.link->finish(now_, std::nullopt);
  }
  renew(shared);
  if (!stays && queue.head != kNone) run_next(host, shared.resource);
  if (shared.resource == kServer || options_.message_latency <= 0) return over(host, ended, begun);
  leave_link(host, ended, begun);
}

void Simulation::end_at(Host& host, int resource) {
  Queue& queue = host.queue(resource);
  const Index ended = std::exchange(queue.running, kNone);
  const double begun = queue.begun;
  if (queue.head != kNone)
    run_next(host, resource);
  else
    moments_->clear(slot(host, resource));
  over(host, ended, begun);
}

void Simulation::leave_link(Host& host, Index operation, double begun) {
  const int resource = host.operation(operation).kind == OperationKind::download ? kDownWire : kUpWire;
  std::deque<OnWire>& wire = host.wire(resource);
  wire.push_back({operation, begun, now_ + options_.message_latency});
  if (wire.size() > 1) return;
  moments_->set(slot(host, resource), wire.front().arrives, order(host, resource));
}

void Simulation::arrive(Host& host, int resource) {
  std::deque<OnWire>& wire = host.wire(resource);
  const OnWire arrived = wire.front();
  wire.pop_front();
  if (wire.empty())
    moments_->clear(slot(host, resource));
  else
    moments_->set(slot(host, resource), wire.front().arrives, order(host, resource));
  over(host, arrived.operation, arrived.begun);
}

/// An allreduce begins when the last host has its part, and ends for all at once. Uploads follow each other, so the
/// hosts that are ready are ready for the same.
void Simulation::join_allreduce() {
  if (++joined_ < hosts_.size()) return;
  joined_ = 0;
  allreduce_begun_ = now_;
  const HostPlan& plan = *hosts_.front().plan;
  const double seconds = plan.graph().operations()[plan.uploads()[allreduced_]].link_seconds;
  const auto messages = 2 * (static_cast<double>(hosts_.size()) - 1);  // of a ring, one after the other
  moments_->set(owners_.size() - 1, now_ + seconds + messages * options_.message_latency, 0);
}

void Simulation::end_allreduce() {
  moments_->clear(owners_.size() - 1);
  const std::size_t ended = allreduced_++;
  for (Host& host : hosts_) over(host, host.plan->uploads()[ended], allreduce_begun_);
}

void Simulation::over(Host& host, Index ended, double begun) {
  const StepGraph& graph = host.plan->graph();
  const StepOperation& operation = graph.operations()[ended];
  ++operations_;
  if (options_.on_operation)
    options_.on_operation({.host = host.index,
                           .worker_class = host.plan->worker_class(),
                           .step = static_cast<int>(host.ends.size()) - 1,
                           .kind = operation.kind,
                           .layer = operation.layer,
                           .gpu = operation.gpu,
                           .begin = begun,
                           .end = now_});
  for (const Index successor : graph.successors(operation))
    if (--host.progress[successor].waits_for == 0) ready(host, successor);
  if (--host.left == 0) end_step(host);
}

void Simulation::end_step(Host& host) {
  if (job_.mode == Coordination::asynchronous) {
    host.ends.push_back(now_);
    if (static_cast<int>(host.ends.size()) <= job_.steps) return start_step(host);
    if (!done_) done_ = &host;
    return;
  }
  if (++hosts_over_ < hosts_.size()) return;
  hosts_over_ = 0;
  allreduced_ = 0;
  for (Host& each : hosts_) each.ends.push_back(now_);
  if (static_cast<int>(host.ends.size()) > job_.steps) {
    done_ = &host;
    return;
  }
  for (Host& each : hosts_) start_step(each);
}

SimulatedSteps Simulation::measure() const {
  const Window window = measured_window(done_->ends);
  SimulatedSteps result{.class_steps_per_s = std::vector<double>(job_.classes.size()), .operations = operations_};
  for (const Host& host : hosts_) {
    const auto workers_class = static_cast<std::size_t>(host.plan->worker_class());
    const WorkerClass& workers = job_.classes[workers_class];
    const double rate = steady_rate(host.ends, window) * host.plan->gpus();
    if (!std::isfinite(rate)) throw UsageError("a step takes no time: all of its layers' times and sizes are 0");
    result.steps_per_s += rate;
    result.examples_per_s += rate * workers.batch;
    result.class_steps_per_s[workers_class] += rate / workers.count;
    if (job_.mode != Coordination::asynchronous && &host != hosts_.data()) continue;  // their steps end together
    for (std::size_t step = 1; step < host.ends.size(); ++step)
      if (host.ends[step - 1] >= window.begin && host.ends[step] <= window.end)
        result.step_seconds.push_back(host.ends[step] - host.ends[step - 1]);
  }
  std::ranges::sort(result.step_seconds);
  return result;
}

}  // namespace

SimulatedSteps simulate_steps(const TrainingJob& job, const StepSimulationOptions& options) {
  return Simulation(job, options).run();
}

FinePrediction predict_fine(const TrainingJob& job, StepSimulationOptions options) {
  FinePrediction prediction;
  const bool both = !job.link && job.mode == Coordination::synchronous;
  if (both || job.link != LinkSharing::in_order) {
    options.sharing = LinkSharing::equal_shares;
    prediction.equal_shares = simulate_steps(job, options);
    options.on_operation = {};
  }
  if (both || job.link == LinkSharing::in_order) {
    options.sharing = LinkSharing::in_order;
    prediction.in_order = simulate_steps(job, options);
  }
  int simulations = 0;
  for (const auto* simulated : {&prediction.equal_shares, &prediction.in_order}) {
    if (!*simulated) continue;
    ++simulations;
    prediction.steps_per_s += (*simulated)->steps_per_s;
    prediction.examples_per_s += (*simulated)->examples_per_s;
  }
  prediction.steps_per_s /= simulations;
  prediction.examples_per_s /= simulations;
  return prediction;
}

}  // namespace stretto
