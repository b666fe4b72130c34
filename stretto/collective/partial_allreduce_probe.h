#pragma once

#include "stretto/collective/partial_allreduce.h"
#include "stretto/collective/protocol/ticket.h"
#include "stretto/collective/rounds/front.h"
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
  /// Requires: before the first step of the engine; must outlive it.
  void observe(PartialObserver& observer);

 private:
  PartialAllreduce& allreduce_;
};

}  // namespace stretto
