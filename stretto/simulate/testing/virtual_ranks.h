#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "stretto/engine/driver.h"
#include "stretto/engine/engine.h"
#include "stretto/simulate/cluster.h"

namespace stretto {

/// Who runs: a rank's thread, or the one that runs the cluster.
class Baton {
 public:
  static constexpr int kCluster = -1;

  /// Lets `next` run, and returns when it is `mine` again.
  void pass(int next, int mine) {
    std::unique_lock lock(mutex_);
    holder_ = next;
    changed_.notify_all();
    changed_.wait(lock, [&] { return holder_ == mine; });
  }
  void wait_for(int mine) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return holder_ == mine; });
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    holder_ = kCluster;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int holder_ = kCluster;
};

/// For tests: one rank on a virtual clock, whose application blocks. While the application computes, the cluster steps
/// the rank's engine, as a helper thread does.
class VirtualRank final : public Driver {
 public:
  VirtualRank(SimulatedCluster& cluster, Baton& baton, int rank) : cluster_(cluster), baton_(baton), rank_(rank) {
    cluster.on_wake(rank, [this] { wake(); });
  }

  const Clock& clock() const override { return cluster_.clock(); }
  void notify() override {
    cluster_.after(Duration(0), rank_, [this] { wake(); });
  }
  int rank() const { return rank_; }
  SimulatedCluster& cluster() { return cluster_; }
  Transport& transport() { return cluster_.transport(rank_); }

  /// The engine to drive from now on, until the application returns. Application thread.
  void drive_engine(Engine& engine) { engine_ = &engine; }

  /// Passes so much virtual time. Application thread.
  void compute(Duration duration) {
    const TimePoint until = clock().now() + duration;
    while (clock().now() < until) {
      cluster_.at(until, rank_, [this] { resume(); });
      rest();
    }
  }
  /// Runs the application until it waits for something.
  void resume() {
    if (!over_) baton_.pass(rank_, Baton::kCluster);
  }
  void main(const std::function<void(VirtualRank&)>& application) {
    baton_.wait_for(rank_);
    application(*this);
    engine_ = nullptr;
    over_ = true;
    baton_.leave();
  }
  bool over() const { return over_; }

 private:
  bool drive(FunctionRef<bool()> done, TimePoint deadline, Looking, std::atomic<std::uint32_t>*) override {
    waiting_ = true;
    bool finished = false;
    for (;;) {
      step();
      finished = done();
      if (finished || clock().now() >= deadline) break;
      const TimePoint by = std::min(deadline, engine_->step_by());
      if (by != TimePoint::never()) cluster_.at(by, rank_, [this] { wake(); });
      rest();
    }
    waiting_ = false;
    return finished;
  }

  void rest() { baton_.pass(Baton::kCluster, rank_); }
  void step() {
    while (engine_ != nullptr && engine_->step()) {
    }
  }
  void wake() {
    if (waiting_) return resume();
    step();
  }

  SimulatedCluster& cluster_;
  Baton& baton_;
  const int rank_;
  Engine* engine_ = nullptr;
  bool waiting_ = false;
  bool over_ = false;
};

/// For tests: runs `application` as every rank of a job on a virtual clock, a thread each, one at a time.
inline void run_virtually(SimulatedCluster& cluster, const std::function<void(VirtualRank&)>& application) {
  Baton baton;
  std::vector<std::unique_ptr<VirtualRank>> all;
  for (int rank = 0; rank < cluster.size(); ++rank) {
    all.push_back(std::make_unique<VirtualRank>(cluster, baton, rank));
  }
  std::vector<std::thread> threads;
  for (auto& rank : all) threads.emplace_back([&] { rank->main(application); });
  for (auto& rank : all) {
    cluster.at(TimePoint{}, rank->rank(), [&rank] { rank->resume(); });
  }
  const auto working = [&] { return std::ranges::any_of(all, [](const auto& rank) { return !rank->over(); }); };
  while (working()) ASSERT_TRUE(cluster.run_next()) << "a rank waits and nothing happens any more";
  for (auto& thread : threads) thread.join();
}

}  // namespace stretto
