#pragma once

#include <cstdint>
#include <vector>

#include "stretto/base/clock.h"

namespace stretto {

/// What ordering has cost one rank: counts and times since the first step, of all process sets.
struct OrderingStatistics {
  std::uint64_t steps = 0;             ///< closed
  std::uint64_t tensors = 0;           ///< reduced, that this rank has submitted
  std::uint64_t buffers = 0;           ///< begun
  std::uint64_t buffer_bytes = 0;      ///< in them
  std::uint64_t void_buffers = 0;      ///< thrown away, since the graph has changed
  std::uint64_t cycles = 0;            ///< passes of the orderer that ended in a sleep
  std::uint64_t controls = 0;          ///< control collectives
  std::uint64_t control_messages = 0;  ///< sent for them
  std::uint64_t control_bytes = 0;     ///< in these messages, without envelopes
  Duration negotiation{0};             ///< from submitted to begun, added up over the tensors
  Duration background_cpu{0};          ///< of the helper thread
  Duration spun{0};                    ///< CPU time of looking for the others' answers instead of sleeping

  std::vector<Duration> oversleeps;  ///< each: from the time asked for until the orderer was asked again
  std::vector<TimePoint> arrivals;   ///< when this rank came to each sync, by its clock
};

}  // namespace stretto
