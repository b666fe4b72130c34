#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stretto/collective/protocol/policy.h"

namespace stretto {

/// The way in which the ranks of a simulated job meet.
enum class Over {
  messages,
  board,   ///< all ranks meet at one
  boards,  ///< at several, with a schedule between them
};

/// Properties of a job that a search fixes instead of drawing them.
struct JobLimits {
  int ranks = 0;                       ///< 0: drawn; a number that the search cannot have: the nearest that it can
  std::optional<Over> over;            ///< where it is possible. Requires: JobSearch::takes_over
  std::optional<Policy::Kind> policy;  ///< Requires: JobSearch::takes_policy
};

/// A situation that a search must reach.
struct Situation {
  std::string_view name;
  double share = 0;          ///< how often at least, of the rounds
  std::string_view of = {};  ///< of this situation, and not of the rounds
};

/// The finding of the simulated job of one seed.
struct JobFinding {
  std::string job;                       ///< in words
  std::optional<std::string> violation;  ///< the first
  std::uint64_t rounds = 0;
  std::uint64_t messages = 0;
  std::vector<std::uint64_t> reached;  ///< how often it came to each of JobSearch::reaches

  void violated(std::string what) {
    if (!violation) violation = std::move(what);
  }
};

/// A kind of collective whose promises are searched for violations.
struct JobSearch {
  std::string_view name;         ///< as `stretto check --collective` takes it
  std::string_view description;  ///< what it is, in a few words
  /// A search in which one of these never occurs, or too seldom, has not reached enough.
  std::span<const Situation> reaches;
  /// Runs the job of a seed through the real engine, checks it after every transition and fills in the finding, whose
  /// `reached` has its size already.
  void (*run)(std::uint64_t seed, const JobLimits& limits, JobFinding& finding);
  /// Numbers of ranks that its jobs may have.
  int fewest_ranks = 1, most_ranks = 64;
  bool takes_over = false, takes_policy = false;
};

/// The job of one seed. A check that fails in the code under test is a violation.
JobFinding run_job(const JobSearch& search, std::uint64_t seed, const JobLimits& limits = {});

struct JobSearchOptions {
  std::uint64_t first_seed = 1;
  std::uint64_t last_seed = ~std::uint64_t{0};
  std::uint64_t rounds = 10'000;  ///< in all: seeds are taken until there were so many
  JobLimits limits;
  std::function<void(std::uint64_t rounds)> progress;  ///< called about once a second
};

struct JobSearchResult {
  std::uint64_t jobs = 0, rounds = 0, messages = 0;
  double seconds = 0;
  std::vector<std::uint64_t> reached;    ///< as JobFinding::reached, in all
  std::optional<std::string> violation;  ///< of the first seed that has one
  std::uint64_t violating_seed = 0;
  std::string job;        ///< the violating one
  std::string shortfall;  ///< the situations reached too seldom; empty from a search that is not judged
};

/// Takes seed after seed until a violation or enough rounds. Judges what it has reached from 10,000 rounds on, unless
/// something is given by the limits.
JobSearchResult search_jobs(const JobSearch& search, const JobSearchOptions& options);

}  // namespace stretto
