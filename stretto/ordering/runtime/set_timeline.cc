#include "stretto/ordering/runtime/set_timeline.h"

#include <iterator>
#include <utility>

namespace stretto {

void TensorTimeline::add(TensorTimes times) {
  MutexLock lock(mutex_);
  if (times_.size() == kKept) times_.pop_front();
  times_.push_back(std::move(times));
}

std::vector<TensorTimes> TensorTimeline::take() {
  MutexLock lock(mutex_);
  std::vector<TensorTimes> out(std::make_move_iterator(times_.begin()), std::make_move_iterator(times_.end()));
  times_.clear();
  return out;
}

SetTimeline::Waiting& SetTimeline::waiting(TensorId tensor) {
  if (tensor >= waiting_.size()) waiting_.resize(tensor + std::size_t{1});
  return waiting_[tensor];
}

void SetTimeline::take(TensorId tensor, TimePoint submitted) {
  waiting(tensor) = {.waits = true, .submitted = submitted, .taken = clock_.now()};
}

void SetTimeline::begin(const FusedBuffer& buffer, const Orderer& orderer) {
  const TimePoint now = clock_.now();
  UnderWay tensors;
  for (const TensorId id : buffer.tensors) {
    Waiting& from = waiting(id);
    // Where a rank leaves the plan it brings nothing of what it has submitted: the buffer will be void, and shows.
    if (!std::exchange(from.waits, false)) continue;
    tensors.emplace_back(id, TensorTimes{.name = orderer.description(id).name,
                                         .set = set_,
                                         .step = buffer.step,
                                         .buffer = buffer.number,
                                         .comes_again = from.comes_again,
                                         .submitted = from.submitted,
                                         .taken = from.taken,
                                         .begun = now});
  }
  if (!tensors.empty()) under_way_.emplace(buffer.number, std::move(tensors));
}

void SetTimeline::fused(SequenceNumber buffer) {
  const auto known = under_way_.find(buffer);
  if (known == under_way_.end()) return;
  const TimePoint now = clock_.now();
  for (auto& [id, times] : known->second) times.fused = now;
}

void SetTimeline::done(SequenceNumber buffer, bool is_valid) {
  auto known = under_way_.extract(buffer);
  if (known.empty()) return;
  const TimePoint now = clock_.now();
  for (auto& [id, times] : known.mapped()) {
    times.done = now;
    times.is_void = !is_valid;
    all_.add(std::move(times));
    if (!is_valid) waiting(id) = {.waits = true, .comes_again = true, .submitted = now, .taken = now};
  }
}

}  // namespace stretto
