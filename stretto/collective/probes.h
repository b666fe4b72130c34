#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "stretto/collective/group_allreduce.h"
#include "stretto/collective/partial_allreduce.h"
#include "stretto/collective/protocol/ticket.h"
#include "stretto/collective/rounds/front.h"
#include "stretto/collective/rounds/groups/standing_rounds.h"
#include "stretto/collective/rounds/partial_observer.h"

namespace stretto {

/// A PartialAllreduce in smaller steps than an application takes, and a look inside: for the search and for tests. Not
/// installed. The allreduce must outlive it.
class PartialProbe {
 public:
  explicit PartialProbe(PartialAllreduce& allreduce) : allreduce_(allreduce) {}

  /// PartialAllreduce::deposit() in steps, so that a search can put those of other ranks between them.
  DepositSteps start_deposit(Contribution& contribution, const DepositInfo& info);

  /// Requires: this thread drives the engine, or no thread does.
  ProtocolState state() const;
  /// Rounds complete here. Any thread.
  Round complete() const;
  /// Requires: before the first step of the engine; must outlive it.
  void observe(PartialObserver& observer);

 private:
  PartialAllreduce& allreduce_;
};

/// A look inside a GroupAllreduce, likewise.
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
