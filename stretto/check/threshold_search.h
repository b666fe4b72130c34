#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace stretto {

/// A job drawn from a seed whose rounds go on when k of n messages have come, with bodies that come in pieces.
struct ThresholdFinding {
  std::string job;  ///< in words
  std::uint64_t rounds = 0;
  std::uint64_t unneeded = 0;  ///< messages that came when their round had been retired
  std::optional<std::string> violation;
};

/// Runs the job of `seed` through the real engine: rank 0 receives integers from all others into scratch memory, parts
/// of it, or given memory, and takes those that come first. Checks that each round holds whole vectors of that round
/// alone, enough of them, and that nobody writes to the memory of a round that has been retired.
ThresholdFinding run_threshold_job(std::uint64_t seed);

}  // namespace stretto
