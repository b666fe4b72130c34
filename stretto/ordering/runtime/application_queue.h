#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "stretto/base/mutex.h"
#include "stretto/collective/base/argument.h"
#include "stretto/ordering/orderer/process_set.h"
#include "stretto/ordering/runtime/tensor_slot.h"

namespace stretto {

/// The queue of events from the threads of an application to the thread that drives the engine, in order. A call
/// that cannot be meant is refused at once, by UsageError, on its thread. Thread-safe; the locks are held for a few
/// instructions.
class ApplicationQueue {
 public:
  /// `sets`: of the job, by number; they outlive it.
  explicit ApplicationQueue(const std::vector<ProcessSet>& sets) : sets_(sets), progress_(sets.size()) {}

  // ---- the application's threads ----

  /// A step has begun: tensors are taken.
  void begin_step(StepNumber step, RoundHeader account);
  /// See OrderedAllreduce::submit(). Returns whether the thread that drives can do something now: always, unless a plan
  /// says that more must come first.
  bool submit(const TensorDescription& tensor, const Argument& in, const Argument& out, TimePoint now);
  /// See OrderedAllreduce::destination().
  void destination(const TensorDescription& tensor, const Argument& out, std::byte* shared);
  /// The tensor of this step. Throws UsageError where it has not been submitted.
  TensorSlot& submitted(const std::string& name);
  /// Nothing more is taken in this step. Throws UsageError where a submit() has not returned.
  void end_step();
  /// Whether there is a plan for every set that this rank is in.
  bool follows_plan();
  /// Any other event.
  void push(OrderingEvent event);

  // ---- the thread that drives ----

  /// Appends the events since the last call to `events`, which is empty.
  void take(std::vector<OrderingEvent>& events);
  /// The steps of a process set follow this plan from now on: Orderer::take_plan(). Null: a tensor that this rank has
  /// never submitted.
  void plan(int set, const std::vector<std::vector<TensorSlot*>>& buffers);

 private:
  /// How far the open step of a process set has come in its plan.
  struct Progress {
    std::vector<std::size_t> tensors;  // by buffer; empty: there is no plan
    std::vector<std::size_t> missing;  // of these, not submitted
    std::size_t complete = 0;          // buffers before the first with a missing one
  };
  void check(const TensorDescription& tensor, const Argument& argument, const char* which) const;
  TensorSlot& slot(const std::string& name) REQUIRES(mutex_);
  void describe(TensorSlot& slot, const TensorDescription& tensor) REQUIRES(mutex_);
  bool completes_buffers(const TensorSlot& slot) REQUIRES(mutex_);
  void add(OrderingEvent event) REQUIRES(mutex_);

  const std::vector<ProcessSet>& sets_;
  std::atomic<int> submitting_{0};  // submit() calls that have not returned; end_step() reads it
  std::atomic<bool> any_{false};    // set after the event is in the queue, with release; read by take(), with acquire

  Mutex mutex_;
  std::vector<OrderingEvent> events_ GUARDED_BY(mutex_);
  std::unordered_map<std::string, std::unique_ptr<TensorSlot>> slots_ GUARDED_BY(mutex_);
  StepNumber step_ GUARDED_BY(mutex_) = 0;
  bool takes_ GUARDED_BY(mutex_) = false;
  std::vector<Progress> progress_ GUARDED_BY(mutex_);  // by process set
};

}  // namespace stretto
