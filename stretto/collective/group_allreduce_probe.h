#pragma once

#include "stretto/collective/group_allreduce.h"
#include "stretto/collective/protocol/protocol_state.h"
#include "stretto/collective/rounds/standing_rounds.h"

namespace stretto {

/// A search's view of a group allreduce, beside its interface.
class GroupProbe {
 public:
  explicit GroupProbe(GroupAllreduce& collective) : collective_(collective) {}
  /// From now on `observer` hears of the rounds.
  void observe(GroupObserver& observer);
  ProtocolState state() const;
  /// Versions published so far.
  std::uint64_t versions() const;
  /// Whether acquire() has memory to give at once.
  bool may_acquire() const;
  /// With GroupOptions::moves: whether a published model has not come to stand yet; and the first bucket of what
  /// stands.
  bool unsettled() const;
  std::span<const std::byte> stands() const;

 private:
  GroupAllreduce& collective_;
};

}  // namespace stretto
