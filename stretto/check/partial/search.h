#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "stretto/check/partial/oracle.h"
#include "stretto/check/partial/scenario.h"

namespace stretto {

/// The outcome of one simulated run.
struct Finding {
  std::optional<std::string> violation;
  Coverage coverage;
  std::uint64_t messages = 0;
};

/// Runs one scenario through the real engine on a simulated cluster and checks the promises after every transition.
Finding run_scenario(const Scenario& scenario);

struct SearchOptions {
  std::uint64_t first_seed = 1;
  std::uint64_t last_seed = ~std::uint64_t{0};
  std::uint64_t rounds = 10'000;  ///< in all: seeds are taken until there were so many
  ScenarioLimits limits;
  /// Called about once a second.
  std::function<void(const Coverage&)> progress;
};

struct SearchResult {
  Coverage coverage;
  std::uint64_t messages = 0;
  std::uint64_t seeds = 0;
  double seconds = 0;
  std::optional<std::string> violation;  ///< of the first seed that has one
  std::uint64_t violating_seed = 0;
  std::string scenario;   ///< the violating one
  std::string shortfall;  ///< the coverage that the search lacks; empty if none, or not to be judged
};

/// Draws scenarios from seeds until a violation or enough rounds. Without a fixed policy, transport or number of ranks,
/// and from 10,000 rounds on, also says where its coverage is short.
SearchResult search(const SearchOptions& options);

}  // namespace stretto
