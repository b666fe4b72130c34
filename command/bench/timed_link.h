#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "command/machine/namespace_hosts.h"
#include "stretto/base/clock.h"
#include "stretto/base/error.h"

namespace stretto::command {

/// How long one message took on a link.
struct TimedTransfer {
  double bytes;
  double seconds;
};

/// A link by its line: a message takes latency + bytes / bandwidth (Li et al., Fig. 6).
struct LinkLine {
  double latency = 0;    ///< seconds
  double bandwidth = 0;  ///< bytes per second; infinite where longer messages took no longer

  double seconds(double bytes) const { return latency + bytes / bandwidth; }
};

/// Which errors a fitted line keeps small.
enum class FitErrors {
  relative,    ///< to the measured time: short messages count as long ones do
  in_seconds,  ///< long times decide
};

/// The line with the least squares of errors. Neither of its numbers is negative. Requires: two different sizes at
/// least, and times above 0.
LinkLine fit_line(std::span<const TimedTransfer> transfers, FitErrors errors = FitErrors::relative);

/// How long messages took between two ranks.
struct TimedLink {
  std::string transport;                 ///< "shm", "hosts"
  std::vector<TimedTransfer> transfers;  ///< medians, one for each size; empty on all ranks but 0
};

enum class Ways {
  one,   ///< a message goes there, and then one back; half of a round trip is one transfer
  both,  ///< two messages go at the same time, one in each direction; a transfer is over when both have come
};

/// Messages of each size go between rank 0 and rank 1 for `time`. The ranks are two processes on this host, or on two
/// of `hosts`, or those that mpirun, srun or torchrun has started. Errc as launch(); throws UsageError where these are
/// not two.
Result<TimedLink> measure_link(std::span<const std::uint64_t> sizes, Duration time, Ways ways = Ways::one,
                               const NamespaceHosts* hosts = nullptr);

/// Two equal messages that were sent to one rank at the same time: seconds from then until each had been received.
struct SharedTransfer {
  std::uint64_t bytes = 0;  ///< of each
  double first = 0;
  double last = 0;
};

/// How two messages share the card of the rank that receives them.
struct TimedSharing {
  std::string transport;                  ///< "shm", "hosts"
  std::vector<SharedTransfer> transfers;  ///< empty on all ranks but 0
};

/// Ranks 1 and 2 each send as many bytes of float32 to rank 0 at the same time, again and again for `time` a size,
/// twenty times at least. The ranks are three processes on this host, or on three of `hosts`, or those that mpirun,
/// srun or torchrun has started. Errc as launch(); throws UsageError where these are not three.
Result<TimedSharing> measure_sharing(std::span<const std::uint64_t> sizes, Duration time,
                                     const NamespaceHosts* hosts = nullptr);

/// Medians of the transfers of one size, in seconds.
struct SharedSize {
  std::uint64_t bytes = 0;
  double first = 0, last = 0;
  double apart = 0;  ///< of last − first in each transfer
  std::size_t transfers = 0;
};
/// By size, the smallest first.
std::vector<SharedSize> by_size(std::span<const SharedTransfer> transfers);

struct Unevenness {
  /// The standard deviation of weights, log-normal with the mean 1, by which messages share a card (unevenness= of
  /// stretto/simulate/cluster.h); at most 10.
  double of_weights = 0;
  double grain = 0;  ///< seconds that two messages are apart however long they are: of a packet, of a late begin
};

/// The first of two equal messages over after a time t, and both after T, had T / 2t of the card; the logarithm of the
/// ratio of the two weights is normal. The square of T - t grows with that of T, from the grain's: a line through the
/// middle ones of the sizes, on which single pauses of a busy machine have no influence. Requires: two sizes at least,
/// and 0 < first ≤ last.
Unevenness fit_unevenness(std::span<const SharedTransfer> transfers);

}  // namespace stretto::command
