#include "stretto/predict/fine/testing/plain_steps.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <limits>
#include <map>
#include <utility>

namespace stretto {

namespace {

enum Resource { kDownlink, kWorker, kUplink, kServer };

struct Operation {
  Resource resource;
  double work;
  std::vector<std::size_t> waiting_for;
};

/// The operations of a step, each with those it waits for. They are numbered kind by kind, forwards what goes forwards
/// and backwards the rest: in this order they become ready where several do at once.
std::vector<Operation> step_of(const TrainingJob& job, const ProfiledStep& layers) {
  const std::size_t count = layers.size();
  const auto download = [&](std::size_t layer) { return layer; };
  const auto forward = [&](std::size_t layer) { return count + layer; };
  const auto backward = [&](std::size_t layer) { return 3 * count - 1 - layer; };
  const auto upload = [&](std::size_t layer) { return 4 * count - 1 - layer; };
  const auto update = [&](std::size_t layer) { return 5 * count - 1 - layer; };

  std::vector<Operation> step(5 * count);
  for (std::size_t i = 0; i < count; ++i) {
    const double transfer = layers[i].bytes / job.bandwidth;
    step[download(i)] = {kDownlink, transfer, {}};
    step[forward(i)] = {kWorker, layers[i].forward, {}};
    step[backward(i)] = {kWorker, layers[i].backward, {}};
    step[upload(i)] = {kUplink, transfer, {}};
    step[update(i)] = {kServer, layers[i].update, {}};
  }
  std::vector<std::size_t> outputs;
  for (std::size_t i = 0; i < count; ++i) {
    for (const int source : layers[i].after) {
      step[forward(i)].waiting_for.push_back(forward(static_cast<std::size_t>(source)));
      step[backward(static_cast<std::size_t>(source))].waiting_for.push_back(backward(i));
    }
    for (std::size_t j = 0; j < count; ++j) {  // what belongs to the layer, or all of the phase before
      if (job.overlap && i != j) continue;
      step[forward(i)].waiting_for.push_back(download(j));
      step[upload(i)].waiting_for.push_back(backward(j));
      step[update(i)].waiting_for.push_back(upload(j));
    }
  }
  for (std::size_t i = 0; i < count; ++i)
    if (step[backward(i)].waiting_for.empty()) outputs.push_back(i);
  for (const std::size_t last : outputs)
    for (const std::size_t output : outputs) step[backward(last)].waiting_for.push_back(forward(output));
  return step;
}

class PlainSimulation {
 public:
  PlainSimulation(const TrainingJob& job, LinkSharing sharing) : job_(job), sharing_(sharing) {
    for (const WorkerClass& workers : job.classes)
      for (int worker = 0; worker < workers.count; ++worker) layers_.push_back(&workers.steps.front());
    steps_.resize(layers_.size());
    ends_.resize(layers_.size());
  }

  std::vector<std::vector<double>> run() {
    for (std::size_t worker = 0; worker < layers_.size(); ++worker) start(worker);
    while (!running_.empty()) {
      const auto eta = [&](const auto& entry) {
        const double share = share_of(entry.first);
        return share > 0 ? entry.second.left / share : std::numeric_limits<double>::infinity();
      };
      auto next = running_.begin();
      for (auto entry = running_.begin(); entry != running_.end(); ++entry)
        if (eta(*entry) < eta(*next)) next = entry;
      const double passed = eta(*next);
      std::map<Key, double> shares;
      for (const auto& [key, operation] : running_) shares[key] = share_of(key);
      for (auto& [key, operation] : running_) operation.left = std::max(0.0, operation.left - passed * shares[key]);
      now_ += passed;
      const auto [key, ended] = *next;
      running_.erase(next);
      finish(key, ended.index);
    }
    return ends_;
  }

 private:
  using Key = std::pair<std::size_t, Resource>;
  struct Running {
    std::size_t index;
    double left;
  };

  void start(std::size_t worker) {
    steps_[worker] = step_of(job_, *layers_[worker]);
    left_[worker] = steps_[worker].size();
    for (std::size_t index = 0; index < steps_[worker].size(); ++index)
      if (steps_[worker][index].waiting_for.empty()) make_ready(worker, index);
  }

  void make_ready(std::size_t worker, std::size_t index) {
    const Key key{worker, steps_[worker][index].resource};
    queues_[key].push_back(index);
    if (running_.contains(key)) return;
    if (key.second == kDownlink || key.second == kUplink) active_[key.second].push_back(worker);
    run_next(key);
  }

  void run_next(const Key& key) {
    const std::size_t index = queues_[key].front();
    queues_[key].pop_front();
    running_[key] = {index, steps_[key.first][index].work};
  }

  void finish(const Key& key, std::size_t index) {
    const std::size_t worker = key.first;
    if (!queues_[key].empty())
      run_next(key);
    else if (key.second == kDownlink || key.second == kUplink)
      std::erase(active_[key.second], worker);
    for (std::size_t waiting = 0; waiting < steps_[worker].size(); ++waiting) {
      std::vector<std::size_t>& waits = steps_[worker][waiting].waiting_for;
      if (std::erase(waits, index) > 0 && waits.empty()) make_ready(worker, waiting);
    }
    if (--left_[worker] == 0) end_step(worker);
  }

  void end_step(std::size_t worker) {
    if (job_.mode == Coordination::asynchronous) {
      ends_[worker].push_back(now_);
      if (static_cast<int>(ends_[worker].size()) < job_.steps) start(worker);
      return;
    }
    if (std::ranges::any_of(left_, [](const auto& entry) { return entry.second > 0; })) return;
    for (std::size_t each = 0; each < ends_.size(); ++each) {
      ends_[each].push_back(now_);
      if (static_cast<int>(ends_[each].size()) < job_.steps) start(each);
    }
  }

  double share_of(const Key& key) {
    if (key.second == kWorker || key.second == kServer) return 1;
    const std::vector<std::size_t>& active = active_[key.second];
    const double cap = job_.flow_cap ? std::min(1.0, *job_.flow_cap / job_.bandwidth) : 1;
    if (sharing_ == LinkSharing::equal_shares) return std::min(cap, 1 / static_cast<double>(active.size()));
    const auto place = static_cast<double>(std::ranges::find(active, key.first) - active.begin());
    return std::clamp(1 - place * cap, 0.0, cap);
  }

  const TrainingJob& job_;
  const LinkSharing sharing_;
  double now_ = 0;
  std::vector<const ProfiledStep*> layers_;
  std::vector<std::vector<Operation>> steps_;
  std::map<std::size_t, std::size_t> left_;
  std::map<Key, std::deque<std::size_t>> queues_;
  std::map<Key, Running> running_;
  std::map<Resource, std::vector<std::size_t>> active_;
  std::vector<std::vector<double>> ends_;
};

}  // namespace

std::vector<std::vector<double>> plain_step_ends(const TrainingJob& job, LinkSharing sharing) {
  return PlainSimulation(job, sharing).run();
}

}  // namespace stretto
