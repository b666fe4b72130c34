#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/check/over.h"

namespace stretto {

/// The finding of the simulated job of one seed.
struct JobFinding {
  std::string job;  ///< in words
  std::optional<std::string> violation;
  std::uint64_t rounds = 0;
  std::uint64_t messages = 0;
  /// How often it came to a situation that the search must reach, in the order of JobSearch::reaches.
  std::vector<std::uint64_t> reached;
};

/// A kind of collective whose promises are searched for violations, beside the partial allreduce
/// (check/partial/search.h).
struct JobSearch {
  std::string_view name;         ///< as `stretto check --collective` takes it
  std::string_view description;  ///< what it is, in a few words
  /// The situations that JobFinding::reached counts. A search in which one never occurs has not reached enough.
  std::span<const std::string_view> reaches;
  /// Runs the job of a seed through the real engine and checks it after every transition. `ranks`: 0: drawn; a
  /// number that the search cannot have is replaced by the nearest that it can.
  JobFinding (*run)(std::uint64_t seed, int ranks);
  /// The same where the way in which the ranks meet is given: by messages or on a board. Null: they meet in one way.
  JobFinding (*run_over)(std::uint64_t seed, int ranks, std::optional<Over> over) = nullptr;
  /// Numbers of ranks that its jobs may have.
  int fewest_ranks = 1, most_ranks = 64;
};

/// The searches of all collectives but those of papers (papers/register.h). To add one, add its line in job_search.cc.
std::span<const JobSearch> job_searches();

struct JobSearchOptions {
  std::uint64_t first_seed = 1;
  std::uint64_t last_seed = ~std::uint64_t{0};
  std::uint64_t rounds = 10'000;                       ///< in all: seeds are taken until there were so many
  int ranks = 0;                                       ///< 0: drawn
  std::optional<Over> over;                            ///< nothing: drawn. Requires: JobSearch::run_over
  std::function<void(std::uint64_t rounds)> progress;  ///< called about once a second
};

struct JobSearchResult {
  std::uint64_t jobs = 0, rounds = 0, messages = 0;
  double seconds = 0;
  std::vector<std::uint64_t> reached;    ///< as JobFinding::reached, in all
  std::optional<std::string> violation;  ///< of the first seed that has one
  std::uint64_t violating_seed = 0;
  std::string job;        ///< the violating one
  std::string shortfall;  ///< the situations never reached; empty from a search too short to be judged
};

/// Takes seed after seed until a violation or enough rounds. Judges what it has reached from 10,000 rounds on, unless
/// the number of ranks is given.
JobSearchResult search_jobs(const JobSearch& search, const JobSearchOptions& options);

}  // namespace stretto
