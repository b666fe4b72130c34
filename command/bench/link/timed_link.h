#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/predict/model/link_line.h"

namespace stretto::command {

/// How long messages took between two ranks.
struct TimedLink {
  std::string transport;                 ///< "shm", "mpi"
  std::vector<TimedTransfer> transfers;  ///< medians, one for each size; empty on all ranks but 0
};

enum class Ways {
  one,   ///< a message goes there, and then one back; half of a round trip is one transfer
  both,  ///< two messages go at the same time, one in each direction; a transfer is over when both have come
};

/// Messages of each size go between rank 0 and rank 1 for `time`. The ranks are two processes on this host, or those
/// that mpirun, srun or torchrun has started. Errc as launch(); throws UsageError where these are not two.
Result<TimedLink> measure_link(std::span<const std::uint64_t> sizes, Duration time, Ways ways = Ways::one);

}  // namespace stretto::command
