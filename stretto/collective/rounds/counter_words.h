#pragma once

#include <cstdint>

#include "stretto/collective/protocol/roll_call.h"
#include "stretto/engine/engine.h"

namespace stretto {

/// The control messages of rounds to the rank that counts (RollCall): a rank has arrived at a round, or drained. Their
/// note is that rank, since the leader of a board speaks for others.
enum CounterWord : std::uint16_t { kArrive = kControlChannel, kDrain, kAfterCounterWords };

/// Carries out RoundAction::Kind::arrive or drain.
inline void tell_counter(Engine& engine, CollectiveId id, const RoundAction& action) {
  const auto channel = action.kind == RoundAction::Kind::arrive ? kArrive : kDrain;
  engine.send_control(id, RollCall::counter(), channel, action.round, static_cast<std::uint64_t>(action.rank), {});
}

/// Tells the protocol of such a message. Returns false for a message of another kind.
template <class Protocol>
bool hear_counter_word(Protocol& protocol, const Envelope& envelope, TimePoint now) {
  const auto rank = static_cast<int>(envelope.note);
  if (envelope.channel == kArrive) protocol.peer_arrived(rank, envelope.round, now);
  if (envelope.channel == kDrain) protocol.peer_drained(rank);
  return envelope.channel == kArrive || envelope.channel == kDrain;
}

}  // namespace stretto
