#pragma once

#include <span>

namespace stretto {

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

}  // namespace stretto
