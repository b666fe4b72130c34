#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "stretto/base/clock.h"

namespace stretto {

/// One fused buffer on one rank: when its tensors were handed over there, and when it was begun.
struct BufferTimes {
  int set = 0;                       ///< process set
  std::uint64_t number = 0;          ///< in the set's sequence: the same on every member
  TimePoint begun;                   ///< by the clock of OrderingStatistics::arrivals, as the next
  std::vector<TimePoint> submitted;  ///< by tensor, in the buffer's order; TimePoint::never(): not by this rank
};

/// The cost of ordering on one rank: counts and times since the first step, of all process sets.
struct OrderingStatistics {
  /// Oversleeps, cycles and arrivals that are kept, the newest.
  static constexpr std::size_t kKept = 1 << 16;
  /// Tensors in the buffers whose times are kept, the newest.
  static constexpr std::size_t kKeptTensors = 1 << 12;

  std::uint64_t steps = 0;             ///< handed over
  std::uint64_t tensors = 0;           ///< begun, that this rank has submitted; a tensor of a void buffer again
  std::uint64_t buffers = 0;           ///< begun
  std::uint64_t buffer_bytes = 0;      ///< in them
  std::uint64_t void_buffers = 0;      ///< thrown away, since the graph has changed
  std::uint64_t deviations = 0;        ///< steps in which some rank has left the plan of a set, of all sets
  std::uint64_t cycles = 0;            ///< passes of the orderer that ended in a sleep
  std::uint64_t controls = 0;          ///< control collectives
  std::uint64_t control_messages = 0;  ///< sent for them, and to ask and to answer who is waited for
  std::uint64_t control_bytes = 0;     ///< in these messages, without envelopes
  Duration negotiation{0};             ///< from submitted to begun, added up over the tensors
  Duration background_cpu{0};          ///< CPU time of the helper thread, from its first look on
  Duration spun{0};                    ///< CPU time of looking for the others' answers instead of sleeping

  std::deque<Duration> oversleeps;   ///< each: from the time asked for until the orderer was asked again
  std::deque<Duration> cycle_times;  ///< each: from its begin until the begin of the next one, in one set
  std::deque<TimePoint> arrivals;    ///< when this rank came to a sync, by its clock until tell_by_clock_behind()
  std::uint64_t syncs = 0;           ///< it has come to; the last of `arrivals` is number `syncs` − 1

  std::deque<BufferTimes> buffer_times;  ///< of those that hold tensors
  std::size_t timed_tensors = 0;         ///< in these

  /// The thread that drives asked the orderer again so long after the time it had been told.
  void note_oversleep(Duration late);
  /// A cycle of a process set took so long, its sleep included.
  void note_cycle(Duration whole);
  /// This rank came to a sync.
  void note_arrival(TimePoint when);
  /// A buffer was begun.
  void note_buffer(BufferTimes times);
  /// Tells arrivals and buffer times by another clock, which the rank's own is so far ahead of.
  void tell_by_clock_behind(Duration ahead);
};

/// How far from each other ranks come to the same syncs.
struct SyncSkew {
  std::vector<Duration> spread;               ///< by sync: the last rank's arrival minus the first one's
  std::vector<std::vector<double>> arrivals;  ///< by rank, by sync: seconds after the mean of all ranks
};

/// Puts the arrivals of ranks together, which are told by one clock: the syncs that all of them have kept.
SyncSkew sync_skew(std::span<const OrderingStatistics> ranks);

/// *Stall* of a tensor on a rank: the part of its negotiation (handed over here until begun here) in which some rank
/// had not handed it over yet. Returns the mean over the tensors that the rank has handed over, by rank, in seconds; 0
/// for none. Counts the buffers that all members of their set have kept. Requires: their times are told by one clock,
/// and `ranks` are all of the job.
std::vector<double> mean_stalls(std::span<const OrderingStatistics> ranks);

/// How much of the deviation from the mean is still there `lag` numbers later: 1 all of it, 0 nothing, about −1 it
/// alternates (the sample's autocorrelation, with the sum of squares of all numbers below). 0 where there are not more
/// than `lag` numbers, or no deviation.
double autocorrelation(std::span<const double> numbers, std::size_t lag);

}  // namespace stretto
