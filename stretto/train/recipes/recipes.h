#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/train/recipes/recipe.h"

namespace stretto {

struct AlgorithmShape;  // predict/shape/algorithm_shape.h

/// An algorithm as --help shows it, and how a rank's part of it is made. The same on every rank.
struct RecipeInfo {
  std::string_view name;         ///< as `--algorithm` takes it
  std::string_view argument;     ///< that may follow the name, in words: "[:Q]"; empty: none may
  std::string_view description;  ///< one line
  std::string_view data;         ///< of full rounds, unless said otherwise: shared, partitioned (default_data())
  /// The policy for `argument` (without its colon; may be empty), or of algorithms that take none. `quorum`: the one of
  /// --quorum, for eager-quorum alone; 0: not given. Throws UsageError.
  Policy (*policy)(const std::string& argument, int ranks, int quorum);
  /// A rank's part of it, with the policy in RecipeContext::options.
  std::unique_ptr<Recipe> (*make)(const RecipeContext& context);
  /// When its ranks wait for one another, with options that fit: by this `stretto advise` compares settings in a
  /// moment. Null, or none for these options: it is tried on the virtual clock. Algorithms of one's own leave it out.
  std::optional<AlgorithmShape> (*shape)(const RecipeOptions& options, int ranks) = nullptr;

  bool averages_models = false;                    ///< and not gradients
  std::uint64_t local_steps = 0;                   ///< the default of H (--sync-every); 0: the algorithm has no H
  std::span<const std::string_view> options = {};  ///< the names that it takes of RecipeOptions::algorithm
  /// Whether the options fit each other and the number of ranks, before any rank starts: throws UsageError. May be
  /// null.
  void (*check)(const RecipeOptions& options, int ranks) = nullptr;
  /// Where members of the job change, with options that let it go on.
  AcrossWorlds across_worlds = AcrossWorlds::refused;
  bool parts_ranks = false;        ///< a rank may be ahead of another although the policy is full
  bool draws = false;              ///< from RecipeOptions::seed, under any policy
  bool averages_momentum = false;  ///< its full rounds do, unless average-momentum says otherwise
  bool keeps_models = false;       ///< with AcrossWorlds::averaged: full rounds leave each rank a model of its own
  bool own_lines = false;          ///< with AcrossWorlds::averaged: RecipeOptions::own_lines, where members can meet
  /// Options of an algorithm outside the library: register_recipe() adds these to algorithm_options(), and their names
  /// to `options`.
  std::span<const AlgorithmOption> own_options = {};
  /// Whether layers are to lie in buckets of their own, since they travel by themselves. Null: not.
  bool (*by_layer)(const RecipeOptions& options) = nullptr;
  /// The option by which some ranks take no batches (Recipe::takes_batches()), in words: "servers dedicated:1". Empty,
  /// or null: all take some.
  std::string (*without_batches)(const AlgorithmOptions& options) = nullptr;
};

/// Whether a rank takes steps of its own between two rounds.
inline bool moves_own_weights(const RecipeInfo& recipe) {
  return recipe.averages_models || recipe.local_steps != 0;
}
/// RecipeInfo::data under a policy: where a round does not wait for all, no rank may be left with batches of its own.
inline std::string_view default_data(const RecipeInfo& recipe, const Policy& policy) {
  return policy.kind != Policy::Kind::full ? "shared" : recipe.data;
}

/// The algorithms: those of the library, and behind them those that register_recipe() has added. To add one to the
/// library, add its file, and its line in recipes.cc. References to them stay valid.
const std::deque<RecipeInfo>& recipes();
/// Adds an algorithm of one's own (docs/own_algorithm.md): from now on it is named as those of the library are. In
/// main(), before any rank is started; one thread. What `recipe` views must last as long as the program. Throws
/// UsageError, and adds nothing, for a name that is taken or that has other characters than small letters, digits and
/// dashes, for an option that there is not or is twice, for a RecipeInfo::data that there is not, and without
/// RecipeInfo::policy or RecipeInfo::make.
void register_recipe(const RecipeInfo& recipe);
/// The one of this name, or null.
const RecipeInfo* find_recipe(std::string_view name);
/// Their names, in the order of recipes().
std::vector<std::string> algorithm_names();

/// An algorithm as it is written: "sync", "eager-quorum:2", "eager-deadline:6,20ms".
struct Algorithm {
  const RecipeInfo* recipe = nullptr;  ///< of recipes()
  Policy policy;                       ///< for RecipeOptions::policy
  std::string argument;                ///< for RecipeOptions::argument
};

/// `quorum` is the one of --quorum; 0: half of the ranks, rounded up. Throws UsageError, which for a misspelt name says
/// which was probably meant.
Algorithm parse_algorithm(const std::string& text, int ranks, int quorum = 0);
/// Its policy among so many ranks, where members of the job change: half of those that are there, or as many as were
/// asked for, in the argument or by a quorum that was given, if they are there.
Policy policy_among(const Algorithm& algorithm, bool quorum_given, int ranks);
/// Throws UsageError where the options do not fit each number of ranks from `least` to `most`, of which there may be
/// any where members of the job change and models are averaged.
void check_each_number(const RecipeInfo& recipe, RecipeOptions options, int least, int most);
/// Throws UsageError, which begins with `begin`, for what does not go on where members of the job change: an algorithm,
/// its options, or `sync_every` own steps (0: as the algorithm has it).
void require_goes_on(const std::string& begin, const Algorithm& algorithm, const AlgorithmOptions& options,
                     std::uint64_t sync_every);

}  // namespace stretto
