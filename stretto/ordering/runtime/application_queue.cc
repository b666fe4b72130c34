#include "stretto/ordering/runtime/application_queue.h"

#include <algorithm>
#include <utility>

#include "stretto/base/error.h"

namespace stretto {

void ApplicationQueue::check(const TensorDescription& tensor, const Argument& argument, const char* which) const {
  if (argument.type() != tensor.type || argument.count() != tensor.count) {
    throw UsageError(text("tensor ", tensor.name, ": \"", which, "\" has ", argument.count(), ' ',
                          name_of(argument.type()), "; described are ", tensor.count, ' ', name_of(tensor.type)));
  }
  if (tensor.set < 0 || tensor.set >= static_cast<int>(sets_.size())) {
    throw UsageError(
        text("tensor ", tensor.name, " of process set ", tensor.set, "; there are the sets 0 to ", sets_.size() - 1));
  }
  const ProcessSet& set = sets_[static_cast<std::size_t>(tensor.set)];
  if (!set.has_this_rank()) {
    throw UsageError(text("tensor ", tensor.name, " belongs to ", set.to_text(), ", which this rank is not in"));
  }
  check_reduction(tensor.type, tensor.op);
  (void)checked_bytes(tensor.type, tensor.count);
}

TensorSlot& ApplicationQueue::slot(const std::string& name) {
  auto& known = slots_[name];
  if (known == nullptr) known = std::make_unique<TensorSlot>();
  return *known;
}

void ApplicationQueue::describe(TensorSlot& slot, const TensorDescription& tensor) {
  if (slot.description == tensor) return;
  slot.description = tensor;
  slot.id.reset();
}

void ApplicationQueue::add(OrderingEvent event) {
  events_.push_back(std::move(event));
  any_.store(true, std::memory_order_release);
}

void ApplicationQueue::push(OrderingEvent event) {
  MutexLock lock(mutex_);
  add(std::move(event));
}

void ApplicationQueue::begin_step(StepNumber step, RoundHeader account) {
  MutexLock lock(mutex_);
  step_ = step;
  takes_ = true;
  for (Progress& of : progress_) {
    of.missing = of.tensors;
    of.complete = 0;
  }
  add({.kind = OrderingEvent::Kind::begin_step,
       .step = step,
       .account = std::make_shared<const RoundHeader>(std::move(account))});
}

void ApplicationQueue::destination(const TensorDescription& tensor, const Argument& out, std::byte* shared) {
  check(tensor, out, "out");
  MutexLock lock(mutex_);
  if (takes_) throw UsageError(text("destination of tensor ", tensor.name, " inside a step"));
  TensorSlot& to = slot(tensor.name);
  describe(to, tensor);
  add({.kind = OrderingEvent::Kind::destination, .slot = &to, .out = out.memory().data, .shared = shared});
}

void ApplicationQueue::plan(int set, const std::vector<std::vector<TensorSlot*>>& buffers) {
  MutexLock lock(mutex_);
  Progress& of = progress_[static_cast<std::size_t>(set)];
  for (const auto& [name, slot] : slots_) {
    if (slot->description.set == set) slot->planned_buffer.reset();
  }
  of = {};
  for (std::size_t buffer = 0; buffer < buffers.size(); ++buffer) {
    std::size_t missing = 0;
    for (TensorSlot* const slot : buffers[buffer]) {
      if (slot != nullptr) slot->planned_buffer = buffer;
      if (!takes_ || slot == nullptr || slot->submitted != step_ + 1) ++missing;
    }
    of.tensors.push_back(buffers[buffer].size());
    of.missing.push_back(missing);
  }
}

/// After the slot's tensor has been submitted.
bool ApplicationQueue::completes_buffers(const TensorSlot& slot) {
  Progress& of = progress_[static_cast<std::size_t>(slot.description.set)];
  if (of.tensors.empty() || !slot.planned_buffer) return true;
  --of.missing[*slot.planned_buffer];
  const std::size_t before = of.complete;
  while (of.complete + 1 < of.missing.size() && of.missing[of.complete] == 0) ++of.complete;
  return of.complete > before;
}

bool ApplicationQueue::submit(const TensorDescription& tensor, const Argument& in, const Argument& out, TimePoint now) {
  struct Submitting {
    explicit Submitting(std::atomic<int>& count) : count(count) { ++count; }
    ~Submitting() { --count; }
    std::atomic<int>& count;
  } const submitting(submitting_);
  check(tensor, in, "in");
  check(tensor, out, "out");
  MutexLock lock(mutex_);
  if (!takes_) throw UsageError(text("tensor ", tensor.name, " is submitted outside a step"));
  TensorSlot& of = slot(tensor.name);
  if (of.submitted == step_ + 1) throw UsageError(text("tensor ", tensor.name, " is submitted twice in step ", step_));
  of.submitted = step_ + 1;
  describe(of, tensor);
  add({.kind = OrderingEvent::Kind::submitted,
       .slot = &of,
       .in = in.memory().data,
       .out = out.memory().data,
       .step = step_,
       .at = now});
  return completes_buffers(of);
}

TensorSlot& ApplicationQueue::submitted(const std::string& name) {
  MutexLock lock(mutex_);
  const auto known = slots_.find(name);
  if (!takes_ || known == slots_.end() || known->second->submitted != step_ + 1) {
    throw UsageError(text("wait for tensor ", name, ", which this step has not submitted"));
  }
  return *known->second;
}

void ApplicationQueue::end_step() {
  MutexLock lock(mutex_);
  if (submitting_.load() > 0) throw UsageError(text("step ", step_, " ends while a thread still submits"));
  takes_ = false;
  add({.kind = OrderingEvent::Kind::step_ended, .step = step_});
}

bool ApplicationQueue::follows_plan() {
  MutexLock lock(mutex_);
  return std::ranges::none_of(sets_, [&](const ProcessSet& set) REQUIRES(mutex_) {
    return set.has_this_rank() && progress_[static_cast<std::size_t>(set.number())].tensors.empty();
  });
}

void ApplicationQueue::take(std::vector<OrderingEvent>& events) {
  if (!any_.load(std::memory_order_acquire)) return;
  MutexLock lock(mutex_);
  events.swap(events_);
  any_.store(false, std::memory_order_relaxed);
}

}  // namespace stretto
