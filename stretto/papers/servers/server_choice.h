#pragma once

#include <string>

#include "stretto/papers/servers/server_options.h"
#include "stretto/train/recipes/options/algorithm_options.h"

namespace stretto {

/// Servers as the argument behind an algorithm's name and its options say: "3" of ssp, "6" of k-sync, `servers`. Throws
/// UsageError for an argument that is no number, and for a number of servers that is none.
ServerOptions server_options(ServerMode mode, const std::string& argument, const AlgorithmOptions& said);
/// RecipeInfo::without_batches.
std::string dedicated_servers(const AlgorithmOptions& said);

}  // namespace stretto
