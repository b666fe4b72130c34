#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"

namespace stretto::command {

/// Two equal messages that were sent to one rank at the same time: seconds from then until each had been received.
struct SharedTransfer {
  double first = 0;
  double last = 0;
};

/// How two messages share the card of the rank that receives them.
struct TimedSharing {
  std::string transport;                  ///< "shm", "mpi"
  std::vector<SharedTransfer> transfers;  ///< empty on all ranks but 0
};

/// Ranks 1 and 2 each send `bytes` bytes of float32 to rank 0 at the same time, again and again for `time`, twenty
/// times at least. The ranks are three processes on this host, or those that mpirun, srun or torchrun has started. Errc
/// as launch(); throws UsageError where these are not three.
Result<TimedSharing> measure_sharing(std::uint64_t bytes, Duration time);

/// The standard deviation of weights, log-normal with the mean 1, by which messages share a card (unevenness= of
/// stretto/simulate/network_spec.h). The first of two equal messages over after a time t, and both after T, had T / 2t
/// of the card; the logarithm of the ratio of the two weights is normal. Fitted to the middle one of its sizes, on
/// which single pauses of a busy machine have no influence; at most 10. Requires: transfers, with 0 < first ≤ last.
double fit_unevenness(std::span<const SharedTransfer> transfers);

}  // namespace stretto::command
