#pragma once

#include "stretto/collective/rounds/contribution.h"
#include "stretto/transport/transport.h"

namespace stretto {

/// Hears of transitions on the engine's thread; for tests of the promises.
class PartialObserver {
 public:
  virtual ~PartialObserver() = default;
  /// The engine joins `round` with the pending contribution (null: none is pending).
  virtual void joined(Round round, const Contribution* contribution) = 0;
  /// This rank makes the plan of `round` on a board: the round takes of `rank` a contribution with these facts (null:
  /// none).
  virtual void taken(Round round, int rank, const ContributionFacts* facts) = 0;
  /// The counter, or on a board this rank, starts `round`, which is not full, with `come` ranks arrived or drained.
  virtual void started(Round round, int come) = 0;
};

}  // namespace stretto
