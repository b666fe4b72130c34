#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stretto/base/mutex.h"
#include "stretto/collective/base/collective_base.h"
#include "stretto/engine/engine.h"
#include "stretto/ordering/options/ordering_options.h"
#include "stretto/ordering/orderer/orderer.h"
#include "stretto/ordering/runtime/application_queue.h"
#include "stretto/ordering/runtime/ordering_counters.h"
#include "stretto/ordering/runtime/set_runner.h"
#include "stretto/ordering/runtime/set_timeline.h"
#include "stretto/ordering/waiting/rank_patience.h"

namespace stretto {

/// The side of an OrderedAllreduce that the engine drives. It takes what the application has queued, lets the runners
/// of all process sets go on, and hands back the steps that all of them have closed.
class RankRunner final : private CollectiveBase {
 public:
  /// A step that all sets of this rank have closed.
  struct Finished {
    StepNumber step = 0;
    RoundHeader header;
    std::vector<const TensorDescription*> reduced, shared;  // as long as this object lives
  };
  /// Makes the orderer of a process set that this rank is in.
  using Factory = std::function<std::unique_ptr<Orderer>(const ProcessSet& set)>;

  /// Registers with the engine, on every rank. Requires: check() of the options.
  RankRunner(Engine& engine, const OrderingOptions& options, const Factory& factory);
  ~RankRunner() override;

  // ---- any thread ----

  /// See OrderedAllreduce::memory().
  std::span<std::byte> memory() const { return memory_; }
  /// See OrderedAllreduce::shared_sums().
  std::span<std::byte> shared_sums() const { return shared_sums_; }
  /// Where the application's threads put what they hand over.
  ApplicationQueue& queue() { return queue_; }
  OrderingCounters& counters() { return counters_; }
  const OrderingCounters& counters() const { return counters_; }
  TensorTimeline& timeline() { return timeline_; }
  CollectiveFailure& failure() { return failure_; }
  const CollectiveFailure& failure() const { return failure_; }
  /// Bytes held for buffers now, in all sets.
  std::uint64_t memory_bytes() const { return memory_bytes_.load(std::memory_order_relaxed); }

  // ---- the application's thread ----

  /// Steps that the application has applied.
  StepNumber handed() const { return handed_.load(std::memory_order_relaxed); }
  void set_handed(StepNumber steps) { handed_.store(steps, std::memory_order_release); }
  /// Whether the step after those that were handed over is closed: take_finished() returns it.
  bool closed() const { return closed_.load(std::memory_order_acquire) > handed(); }
  /// Takes the oldest closed step. Requires: closed().
  Finished take_finished();
  /// Whether every rank has drained.
  bool over() const { return over_.load(std::memory_order_acquire); }
  /// Takes what a person is to read, since the last call.
  std::vector<std::string> take_lines();
  /// A word on which the application sleeps: the driving thread changes it after closed(), over() or take_lines() has
  /// changed, and after a failure. It does so under OrderingOptions::background_only alone.
  std::atomic<std::uint32_t>& progress() { return progress_; }

  /// For what this rank waits since `since`, in words. Requires: the calling thread drives the engine.
  std::string waits_for(TimePoint since) const;

 private:
  bool poll(TimePoint now) override;
  TimePoint poll_by() const override;

  std::uint64_t board_bytes(const ProcessSet& set) const;
  std::span<std::byte> take_memory(const std::string& alike);
  std::span<std::byte> take_shared(std::uint64_t bytes, const std::string& alike);
  void settle_background();
  bool take_events(TimePoint now);
  std::optional<TimePoint> waits_since(StepNumber handed) const;
  bool publish();
  void look_who_has_left();
  void wake_application();

  // Fixed after construction.
  const OrderingOptions options_;
  const std::vector<ProcessSet> sets_;
  std::span<std::byte> lent_;    // of all ranks; the two behind it are parts of it
  std::span<std::byte> memory_;  // this rank's
  std::span<std::byte> shared_sums_;
  OrderingCounters counters_;     // thread-safe, as the next two
  TensorTimeline timeline_;       // before the runners, which add to it
  std::vector<SetRunner*> mine_;  // the runners of sets that this rank is in, by number: set 0 first

  // The driving thread's.
  RankPatience patience_;                            // before the runners, whose orderers refer to it
  std::vector<std::unique_ptr<SetRunner>> runners_;  // of all sets
  std::vector<OrderingEvent> events_;
  std::optional<TimePoint> blocked_since_;                      // the application waits for one tensor
  std::optional<std::pair<StepNumber, TimePoint>> step_ended_;  // the last one, and when that was heard of
  StepNumber published_ = 0;
  bool at_end_ = false;  // no further steps come: all ranks had drained in the one that was closed last
  bool told_of_failure_ = false;

  // Between the two.
  ApplicationQueue queue_;
  std::atomic<StepNumber> closed_{
      0};  // driver, with release: steps that are finished_ or have been; pairs with closed()
  std::atomic<StepNumber> handed_{0};       // application, with release: steps that it has applied; pairs with poll()
  std::atomic<bool> over_{false};           // driver, with release: every rank has drained; pairs with over()
  std::atomic<std::uint32_t> progress_{0};  // the driver counts it up after any of the above
  std::atomic<std::uint64_t> memory_bytes_{0};
  mutable Mutex results_mutex_;
  std::deque<Finished> finished_ GUARDED_BY(results_mutex_);
  std::vector<std::string> lines_ GUARDED_BY(results_mutex_);
};

}  // namespace stretto
