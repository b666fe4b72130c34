#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "stretto/base/clock.h"

namespace stretto {

/// What ordering has cost one rank: counts and times since the first step, of all process sets.
struct OrderingStatistics {
  /// Oversleeps and arrivals that are kept, the newest.
  static constexpr std::size_t kKept = 1 << 16;

  std::uint64_t steps = 0;             ///< handed over
  std::uint64_t tensors = 0;           ///< begun, that this rank has submitted; a tensor of a void buffer again
  std::uint64_t buffers = 0;           ///< begun
  std::uint64_t buffer_bytes = 0;      ///< in them
  std::uint64_t void_buffers = 0;      ///< thrown away, since the graph has changed
  std::uint64_t cycles = 0;            ///< passes of the orderer that ended in a sleep
  std::uint64_t controls = 0;          ///< control collectives
  std::uint64_t control_messages = 0;  ///< sent for them
  std::uint64_t control_bytes = 0;     ///< in these messages, without envelopes
  Duration negotiation{0};             ///< from submitted to begun, added up over the tensors
  Duration background_cpu{0};          ///< CPU time of the helper thread, from its first look on
  Duration spun{0};                    ///< CPU time of looking for the others' answers instead of sleeping

  std::deque<Duration> oversleeps;  ///< each: from the time asked for until the orderer was asked again
  std::deque<TimePoint> arrivals;   ///< when this rank came to a sync, by its clock
  std::uint64_t syncs = 0;          ///< it has come to; the last of `arrivals` is number `syncs` − 1

  /// The thread that drives asked the orderer again so long after the time it had been told.
  void note_oversleep(Duration late);
  /// This rank came to a sync.
  void note_arrival(TimePoint when);
};

/// How far from each other ranks come to the same syncs.
struct SyncSkew {
  std::vector<Duration> spread;               ///< by sync: the last rank's arrival minus the first one's
  std::vector<std::vector<double>> arrivals;  ///< by rank, by sync: seconds after the mean of all ranks
};

/// Puts the arrivals of the ranks of one host together, whose clock is the same: the syncs that all of them have kept.
SyncSkew sync_skew(std::span<const OrderingStatistics> ranks);

/// How much of the deviation from the mean is still there `lag` numbers later: 1 all of it, 0 nothing, about −1 it
/// alternates (the sample's autocorrelation, with the sum of squares of all numbers below). 0 where there are not more
/// than `lag` numbers, or no deviation.
double autocorrelation(std::span<const double> numbers, std::size_t lag);

}  // namespace stretto
