#pragma once

#include <cstdint>
#include <vector>

#include "command/predict/trial.h"

namespace stretto::command {

/// So many of the settings that were compared by their shapes are run.
inline constexpr std::size_t kFinalists = 10;

/// Of many settings those that are worth a run on the virtual clock.
struct Finalists {
  std::vector<Choice> choices;  ///< the settings that recommended() prefers by their shapes, and those without a shape
  std::vector<Trial> by_shape;  ///< of all that have one, the fastest first
};

/// At most kFinalists of the choices that have a shape. Throws what try_shapes() throws.
Finalists pick_finalists(const std::vector<Choice>& choices, const std::vector<StepTimes>& replicas,
                         const SimulatedHosts& hosts, std::uint64_t seed);

/// Every setting that may be the best for so many ranks, of the library's algorithms that have a shape: about sixty of
/// 64. Numbers of servers are among them where the model has several buckets.
std::vector<Choice> settings_for(int ranks, const SimulatedHosts& hosts);

/// Up to so many ranks the algorithms without a shape are tried unless settings are named: each is a run more.
inline constexpr int kFewRanks = 16;
/// The library's algorithms among neighbours, in pairs and around a center, with their defaults.
std::vector<Choice> settings_without_shape();
/// settings_for(), and of few ranks those without a shape.
std::vector<Choice> all_settings_for(int ranks, const SimulatedHosts& hosts);

}  // namespace stretto::command
