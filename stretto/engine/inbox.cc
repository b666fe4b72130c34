#include "stretto/engine/inbox.h"

#include <algorithm>

namespace stretto {

TimePoint Inbox::last_heard(int peer) const {
  const auto known = peers_.find(peer);
  return known == peers_.end() ? since_ : std::max(since_, known->second.heard);
}

bool Inbox::reserve(int peer, std::uint64_t bytes) {
  Peer& sender = of(peer);
  if (sender.messages >= limits_.messages || bytes > limits_.bytes - sender.bytes) return false;
  ++sender.messages;
  sender.bytes += bytes;
  return true;
}

void Inbox::release(const Kept& message) {
  Peer& sender = of(message.peer);
  --sender.messages;
  if (message.body) sender.bytes -= message.envelope.body_bytes;
}

void Inbox::keep(Kept message) {
  waiting_[{message.envelope.collective, message.envelope.round}].push_back(std::move(message));
}

std::vector<Kept> Inbox::take(CollectiveId collective, Round round) {
  const auto found = waiting_.find({collective, round});
  if (found == waiting_.end()) return {};
  std::vector<Kept> messages = std::move(found->second);
  waiting_.erase(found);
  for (const Kept& message : messages) release(message);
  return messages;
}

std::vector<Kept> Inbox::forget(CollectiveId collective) {
  std::vector<Kept> all;
  while (true) {
    const auto first = waiting_.lower_bound({collective, 0});
    if (first == waiting_.end() || first->first.first != collective) return all;
    for (Kept& message : take(collective, first->first.second)) all.push_back(std::move(message));
  }
}

std::vector<Kept> Inbox::claim(std::size_t registered) {
  if (unclaimed_.empty()) return {};
  std::vector<Kept> claimed;
  std::vector<Kept> rest;
  for (Kept& message : unclaimed_) {
    const bool there = message.envelope.collective < registered;
    if (there) release(message);
    (there ? claimed : rest).push_back(std::move(message));
  }
  unclaimed_ = std::move(rest);
  return claimed;
}

}  // namespace stretto
