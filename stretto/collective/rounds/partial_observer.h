#pragma once

#include "stretto/observe/round_header.h"
#include "stretto/transport/transport.h"

namespace stretto {

/// Hears of transitions on the engine's thread; for tests of the promises.
class PartialObserver {
 public:
  virtual ~PartialObserver() = default;
  /// `round` takes of `rank` a contribution with these facts (null: none). By messages `rank` is this rank, whose
  /// engine joins the round; on a board this rank makes the round's plan, for all ranks.
  virtual void taken(Round round, int rank, const ContributionFacts* facts) = 0;
  /// The counter, or on a board this rank, starts `round`, which is not full, with `come` ranks arrived or drained.
  virtual void started(Round round, int come) = 0;
};

}  // namespace stretto
