#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "stretto/train/recipe.h"

namespace stretto {

/// An algorithm as --help shows it, and how a rank's part of it is made.
struct RecipeInfo {
  std::string_view name;
  std::string_view argument;     ///< what may follow the name: "[:Q]"
  std::string_view description;  ///< one line
  std::string_view data;         ///< where its batches come from unless said otherwise: shared, partitioned
  /// The policy for `argument` (without its colon; may be empty), or of algorithms that take none. Throws UsageError.
  Policy (*policy)(const std::string& argument, int ranks, int quorum);
  std::unique_ptr<Recipe> (*make)(const RecipeContext& context);
};

/// All algorithms. To add one, add its file and its line here.
std::span<const RecipeInfo> recipes();

/// An algorithm as it is written: "sync", "eager-quorum:2", "eager-deadline:6,20ms".
struct Algorithm {
  const RecipeInfo* recipe = nullptr;
  Policy policy;
};

/// `quorum` is the one of --quorum; 0: half of the ranks, rounded up. Throws UsageError, which lists what there is.
Algorithm parse_algorithm(const std::string& text, int ranks, int quorum = 0);

}  // namespace stretto
