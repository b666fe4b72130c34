#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>

#include "stretto/base/clock.h"
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

}  // namespace stretto
