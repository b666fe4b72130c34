#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/mutex.h"
#include "stretto/collective/base/argument.h"
#include "stretto/observe/round_header.h"
#include "stretto/ordering/orderer/graph.h"
#include "stretto/ordering/orderer/orderer.h"

namespace stretto {

/// A tensor of this rank's application, by its name: what the application and the thread that drives share. Made at the
/// first submit() or destination(), kept until the end.
struct TensorSlot {
  /// The application writes it, before it queues the submission, in a step that the driving thread has not begun with;
  /// the driving thread reads it once it has taken the submission from the queue.
  TensorDescription description;
  /// By which the orderer knows the description; nothing: it has not been told. Written as that, and by the driving
  /// thread when it takes an event.
  std::optional<TensorId> id;
  StepNumber submitted = 0;  ///< 1 + the step it was submitted in last; guarded by the queue's mutex
  /// Where the plan has it; nothing: nowhere. Guarded by the queue's mutex.
  std::optional<std::size_t> planned_buffer;
  /// 1 + the step it was reduced in last. The driving thread's release store, after it has written the result, pairs
  /// with the application's acquire load in wait().
  std::atomic<StepNumber> reduced{0};
};

/// An event in an application, on its way from one of its threads to the thread that drives the engine. Events keep
/// their order.
struct OrderingEvent {
  enum class Kind {
    destination,  ///< of `slot`, `out`, and `shared`
    begin_step,   ///< step `step`, with `header`
    submitted,    ///< `slot`, from `in` to `out`
    executed,     ///< `graph`, by step `step`
    step_ended,   ///< step `step`
    drained,
    blocked,  ///< on `slot`; null: no longer
  };
  Kind kind = Kind::drained;
  TensorSlot* slot = nullptr;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::byte* shared = nullptr;  ///< where all ranks see the sum that all bring; null: nowhere
  StepNumber step = 0;
  TimePoint at;
  std::shared_ptr<const ExecutedGraph> graph;
  std::shared_ptr<const RoundHeader> account;  ///< begin_step: this rank's, for the step's header
};

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
