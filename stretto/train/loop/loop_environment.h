#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "stretto/train/options/distributed_options.h"

namespace stretto {

/// The settings of a loop of the user's own that the environment gives, in place of its options: `stretto compare
/// --program` runs the same program by several algorithms so.
struct LoopEnvironment {
  std::optional<std::string> algorithm;  ///< STRETTO_ALGORITHM
  std::optional<int> ranks;              ///< STRETTO_RANKS: of run_ranks(), where the program stands alone
  std::optional<int> seats;              ///< STRETTO_SEATS: in place of that of the options
  std::uint64_t seed = 0;                ///< STRETTO_SEED: added to the seeds of the options
  /// STRETTO_IMBALANCE: which ranks are slow, as Imbalance::parse() reads it, by sleeping in the steps of the first
  /// optimizer; empty: none
  std::string imbalance;
  std::string out;  ///< STRETTO_OUT: folder for reports (loop_report.h); empty: none
};

/// Throws UsageError for a value that does not fit the option.
LoopEnvironment loop_environment();

/// `options` with the algorithm and the seed of the environment, and without what only the algorithm of the program has
/// a use for.
DistributedOptions overridden(DistributedOptions options, const LoopEnvironment& environment);

}  // namespace stretto
