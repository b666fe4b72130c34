// What a Topo does where its rank waits for long, or another one does: WHO(b) of docs/lab/ordering.md.

#include <algorithm>
#include <utility>

#include "stretto/base/words.h"
#include "stretto/ordering/topo/topo.h"

namespace stretto {

void Topo::note_activity(TimePoint now) {
  if (std::exchange(acted_, false)) patience_.acted(now);
  if (std::exchange(moved_, false)) moved_at_ = now;
}

/// A drained rank waits for nothing; without a plan the coordinator looks.
std::optional<TimePoint> Topo::waits_since() const {
  if (phase_ != Phase::planned) return std::nullopt;
  if (blocked_) return blocked_since_;
  return ended_ && !drained_ ? std::optional(moved_at_) : std::nullopt;
}

/// A tensor that is in no valid buffer comes once all buffers are complete.
StallInquiry::Wait Topo::wait() const {
  if (blocked_) {
    const std::optional<std::size_t> buffer = leaving_ ? std::nullopt : array_.buffer_of(*blocked_);
    return {step_, buffer.value_or(array_.size() - 1), description(*blocked_).name, true};
  }
  const std::vector<TensorId>& tensors = array_.tensors(done_);
  return {step_, done_, tensors.empty() ? "the end of the step" : description(tensors.front()).name};
}

void Topo::look_for_stall(TimePoint now) {
  if (inquiry_.due(waits_since(), now)) inquiry_.ask(wait());
  const StallQuestion* question = inquiry_.complete(now);
  if (question == nullptr) return;
  StallNotice report = inquiry_.report(answer(*question, now));
  if (report.fails) {
    error_ = Error{Errc::timeout, std::move(report.line)};
  } else {
    lines_.push_back(std::move(report.line));
  }
}

StallAnswer Topo::answer(const StallQuestion& asked, TimePoint now) const {
  StallAnswer answer{.number = asked.number, .step = step_, .ended = ended_, .drained = drained_};
  const RankPatience::Wait* wait = patience_.waiting();
  // The application reads the clock after the driving thread has, where it begins to wait meanwhile.
  answer.since = std::max(Duration{0}, now - (wait != nullptr ? wait->since : patience_.acted_at()));
  if (wait != nullptr) {
    answer.waits_for = wait->tensor;
    answer.waits_in = wait->set;
  }
  const bool under_way = phase_ == Phase::planned && step_ == asked.step && issued_ < array_.size();
  if (!under_way || issued_ > asked.buffer || ready(issued_)) return answer;
  answer.holds_back = true;
  const std::optional<TensorId> missing = array_.missing(issued_);
  answer.place = missing ? array_.place(*missing) : StallAnswer::kEndOfStep;
  if (missing) answer.lacks = description(*missing).name;
  return answer;
}

/// The next message to another member, if there is one.
std::optional<OrdererAction> Topo::tell(TimePoint now) {
  while (const auto question = inquiry_.take_question()) {
    inquiry_.answer(question->first, answer(question->second, now));
    ++questions_;
  }
  auto letter = inquiry_.take_letter();
  if (!letter) return std::nullopt;
  OrdererAction action;
  action.kind = OrdererAction::Kind::tell;
  action.to = letter->first;
  action.bytes = std::move(letter->second);
  return action;
}

}  // namespace stretto
