#include "stretto/engine/inquiry.h"

#include <algorithm>
#include <utility>

namespace stretto {

void Inquiry::poll() {
  const std::uint32_t wanted = wanted_.load(std::memory_order_acquire);
  if (std::exchange(asked_, wanted) == wanted) return;
  const MutexLock lock(mutex_);
  for (const int peer : ranks_) engine_.send_control(id_, peer, ask_, question_, wanted, {});
}

bool Inquiry::control(int peer, const Envelope& envelope, std::span<const std::byte> head) {
  if (envelope.channel == ask_) {
    engine_.send_control(id_, peer, answer_, envelope.round, envelope.note, answer_of_(envelope.round));
    return true;
  }
  if (envelope.channel != answer_) return false;
  const MutexLock lock(mutex_);
  const auto at = std::ranges::find(ranks_, peer);
  if (envelope.note != asked_ || at == ranks_.end()) return true;
  answers_[static_cast<std::size_t>(at - ranks_.begin())].emplace(head.begin(), head.end());
  return true;
}

std::vector<std::optional<Inquiry::Answer>> Inquiry::ask(Driver& driver, Duration timeout, std::vector<int> ranks,
                                                         std::uint64_t question, FunctionRef<bool()> failed) {
  {
    const MutexLock lock(mutex_);
    question_ = question;
    answers_.assign(ranks.size(), std::nullopt);
    ranks_ = std::move(ranks);
  }
  wanted_.fetch_add(1, std::memory_order_release);
  const auto answered = [&] {
    const MutexLock lock(mutex_);
    return std::ranges::all_of(answers_, [](const auto& answer) { return answer.has_value(); });
  };
  driver.wait_driving([&] { return answered() || failed(); }, driver.deadline(timeout));
  const MutexLock lock(mutex_);
  return answers_;
}

std::vector<std::optional<Inquiry::Answer>> Inquiry::ask_others(Driver& driver, Duration timeout,
                                                                std::uint64_t question, FunctionRef<bool()> failed) {
  std::vector<int> others;
  for (int peer = 0; peer < engine_.size(); ++peer) {
    if (peer != engine_.rank()) others.push_back(peer);
  }
  return ask(driver, timeout, std::move(others), question, failed);
}

}  // namespace stretto
