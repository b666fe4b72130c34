#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stretto/base/clock.h"

namespace stretto {

/// How the processes of a simulated job come and go. A place is a node of the job: the process there is a member, and
/// where it has gone another one comes in its place.
struct Churn {
  /// The mean of the time that a process lives, which is drawn exponentially for each; 0: as long as the job.
  Duration life{0};
  double notice = 0;  ///< share of the processes that hear of their end and leave; the others are lost
  /// From the end of a process until another one comes to its place, as it stood at the start; none: nobody comes.
  std::optional<Duration> back = Duration(0);
  Duration detect{0};  ///< until the master hears of a loss

  /// A process that ends at a certain time, beside those that are drawn.
  struct Planned {
    int place = 0;
    Duration at{0};
    bool leaves = false;  ///< else it is lost
  };
  std::vector<Planned> planned = {};

  /// How long the process of a number lives, and whether it leaves then: drawn from the seed, alike for each call.
  /// Never: as long as the job.
  struct End {
    std::optional<Duration> after = {};
    bool leaves = false;
  };
  End end_of(std::uint64_t seed, std::uint64_t number) const;
};

/// Reads churn, written as parts joined by commas:
///   life=2h            mean time that a process lives, drawn exponentially
///   notice=0.5         share of the processes that leave in order; 0
///   back=30s           after a process another one comes to its place; 0s. never: none does
///   detect=1s          until a loss is known; 0s
///   loss=PLACE@TIME    the process of a place is lost at a time of the job; any number of these
///   leave=PLACE@TIME   the same, and leaves
/// At least one of life, loss and leave. Throws UsageError that names the part, the parts expected and an example.
Churn parse_churn(const std::string& written, int places);

/// The text that parse_churn() reads.
std::string to_text(const Churn& churn);

}  // namespace stretto
