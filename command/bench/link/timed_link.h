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

/// Messages of each size go from rank 0 to rank 1 and back for `time`; half of a round trip is one transfer. The ranks
/// are two processes on this host, or those that mpirun, srun or torchrun has started. Errc as launch(); throws
/// UsageError where these are not two.
Result<TimedLink> measure_link(std::span<const std::uint64_t> sizes, Duration time);

}  // namespace stretto::command
