#pragma once

#include <cstdint>
#include <span>

#include "stretto/base/rank_set.h"
#include "stretto/observe/round_header.h"
#include "stretto/transport/transport.h"

namespace stretto {

/// The ranks that have come to the open round, as the seats say; numbered by their seats.
struct Attendance {
  RankSet arrived, drained;
  std::int64_t first_arrival = 0;  ///< nanoseconds; 0: no rank has arrived
};

/// Decides when the open round starts, and hears of its progress. Called from PartialBoard::step().
class PartialRule {
 public:
  virtual ~PartialRule() = default;
  /// Whether `round` may start, given the rounds before it. The same answer on every rank that sees the same
  /// attendance, but for time.
  virtual bool may_start(Round round, const Attendance& attendance) = 0;
  virtual std::int64_t now() const = 0;
  /// This rank has started the round.
  virtual void started(Round, const Attendance&) {}
  /// This rank makes the plan of the round: `facts` is the contribution of `seat` (null: nothing). Called once for each
  /// seat.
  virtual void taken(Round, int /*seat*/, const ContributionFacts* /*facts*/) {}
  /// The header of the round. `words` are the rule's own: they are kept with the header, for the decision about the
  /// next round.
  virtual void planned(Round round, const RoundHeader& header, std::span<std::uint64_t, 2> words) = 0;
};

}  // namespace stretto
