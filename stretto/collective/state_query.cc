#include "stretto/collective/state_query.h"

#include <array>
#include <cmath>
#include <cstring>

#include "stretto/base/error.h"

namespace stretto {

void StateQuery::poll() {
  const std::uint32_t wanted = wanted_.load(std::memory_order_acquire);
  if (wanted == asked_) return;
  asked_ = wanted;
  for (int peer = 0; peer < engine_.size(); ++peer) {
    if (peer != engine_.rank()) engine_.send_control(id_, peer, ask_, 0, wanted, {});
  }
}

bool StateQuery::control(int peer, const Envelope& envelope, std::span<const std::byte> head) {
  if (envelope.channel == ask_) {
    const ProtocolState mine = state_();
    std::array<std::byte, sizeof mine> bytes;
    std::memcpy(bytes.data(), &mine, sizeof mine);
    engine_.send_control(id_, peer, answer_, 0, envelope.note, bytes);
    return true;
  }
  if (envelope.channel != answer_) return false;
  const MutexLock lock(mutex_);
  if (envelope.note != asked_ || answers_.empty() || head.size() != sizeof(ProtocolState)) return true;
  Answer& answer = answers_[static_cast<std::size_t>(peer)];
  answer.here = true;
  std::memcpy(&answer.state, head.data(), sizeof answer.state);
  return true;
}

StateQuery::Answer StateQuery::answer(int rank) const {
  const MutexLock lock(mutex_);
  return answers_.empty() ? Answer{} : answers_[static_cast<std::size_t>(rank)];
}

bool StateQuery::all_answered() const {
  const MutexLock lock(mutex_);
  int here = 0;
  for (const auto& answer : answers_) here += answer.here ? 1 : 0;
  return here + 1 >= engine_.size();
}

std::string StateQuery::who_is_missing(Driver& driver, Duration timeout, Round open, const std::string& round,
                                       FunctionRef<bool()> failed) {
  {
    const MutexLock lock(mutex_);
    answers_.assign(static_cast<std::size_t>(engine_.size()), {});
  }
  wanted_.fetch_add(1, std::memory_order_release);
  std::vector<Duration> silent(static_cast<std::size_t>(engine_.size()));
  const auto answered = [&] {
    for (int peer = 0; peer < engine_.size(); ++peer) {
      silent[static_cast<std::size_t>(peer)] = engine_.clock().now() - engine_.last_heard(peer);
    }
    return all_answered() || failed();
  };
  driver.wait_driving(answered, driver.deadline(timeout));
  std::string missing;
  for (int peer = 0; peer < engine_.size(); ++peer) {
    if (peer == engine_.rank()) continue;
    const Answer its = answer(peer);
    const ProtocolState& state = its.state;
    if (its.here && (state.drained || state.waiting || state.complete > open)) continue;
    missing += text(missing.empty() ? "" : ", ", "rank ", peer);
    if (!its.here) {
      missing += text(" (silent, last seen ", std::lround(seconds(silent[static_cast<std::size_t>(peer)])), " s ago)");
    } else {
      missing += state.complete < open ? text(" (at round ", state.complete, ")") : std::string(" (computing)");
    }
  }
  if (missing.empty()) missing = "nobody: all ranks have come";
  return text(round, " waits for ", missing);
}

}  // namespace stretto
