#include "stretto/collective/allreduce/board_query.h"

#include <utility>

namespace stretto {

BoardQuery::BoardQuery(Engine& engine, const Seating& seating, std::function<bool(int, std::uint64_t)> has_come)
    : engine_(engine), seating_(seating), has_come_(std::move(has_come)) {}

void BoardQuery::poll() {
  const std::uint32_t wanted = wanted_.load(std::memory_order_acquire);
  if (std::exchange(asked_, wanted) == wanted) return;
  const std::uint64_t rounds = rounds_.load(std::memory_order_relaxed);
  for (const int leader : seating_.leaders()) {
    if (leader != seating_.leader()) engine_.send_control(id_, leader, kAsk, rounds, wanted, {});
  }
}

bool BoardQuery::control(int peer, const Envelope& envelope, std::span<const std::byte> head) {
  if (envelope.channel == kAsk) {
    Attendance come;
    for (int seat = 0; seat < seating_.seats(); ++seat) come.push_back(std::byte{has_come_(seat, envelope.round)});
    engine_.send_control(id_, peer, kAnswer, envelope.round, envelope.note, come);
    return true;
  }
  if (envelope.channel != kAnswer) return false;
  const int board = seating_.board_of(peer);
  const MutexLock lock(mutex_);
  if (envelope.note != asked_ || answers_.empty() || head.size() != seating_.at(board).size()) return true;
  answers_[static_cast<std::size_t>(board)].emplace(head.begin(), head.end());
  return true;
}

bool BoardQuery::all_answered() const {
  const MutexLock lock(mutex_);
  for (int board = 0; board < seating_.boards(); ++board) {
    if (board != seating_.board() && !answers_[static_cast<std::size_t>(board)]) return false;
  }
  return true;
}

std::vector<std::string> BoardQuery::missing(Driver& driver, Duration timeout, std::uint64_t rounds,
                                             FunctionRef<bool()> failed) {
  {
    const MutexLock lock(mutex_);
    answers_.assign(static_cast<std::size_t>(seating_.boards()), std::nullopt);
  }
  rounds_.store(rounds, std::memory_order_relaxed);
  wanted_.fetch_add(1, std::memory_order_release);
  driver.wait_driving([&] { return all_answered() || failed(); }, driver.deadline(timeout));
  std::vector<std::string> missing;
  const MutexLock lock(mutex_);
  for (int board = 0; board < seating_.boards(); ++board) {
    if (board == seating_.board()) continue;
    const std::optional<Attendance>& come = answers_[static_cast<std::size_t>(board)];
    if (!come) missing.push_back(text("rank ", seating_.leader_of(board), " (silent)"));
    for (std::size_t seat = 0; come && seat < come->size(); ++seat) {
      if ((*come)[seat] == std::byte{0}) missing.push_back(text("rank ", seating_.at(board)[seat]));
    }
  }
  return missing;
}

}  // namespace stretto
