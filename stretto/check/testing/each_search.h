#pragma once

#include <gtest/gtest.h>

#include "stretto/check/harness/job_search.h"

namespace stretto {

/// For tests: what is expected of every search.
inline void expect_nothing_in_what_is_right(const JobSearch& search) {
  const JobSearchResult result = search_jobs(search, {.rounds = 12'000});
  EXPECT_FALSE(result.violation) << search.name << ", seed " << result.violating_seed << ": " << result.job << ": "
                                 << *result.violation;
  EXPECT_EQ(result.shortfall, "") << search.name;
  EXPECT_GE(result.rounds, 12'000u) << search.name;
}

inline void expect_nothing_for_any_number_of_ranks(const JobSearch& search) {
  for (int ranks : {1, 2, 3, 4, 5, 7, 8, 16, 33}) {
    const JobSearchResult result = search_jobs(search, {.first_seed = 1000, .rounds = 100, .limits = {.ranks = ranks}});
    EXPECT_FALSE(result.violation) << search.name << ", " << ranks << " ranks, seed " << result.violating_seed << ": "
                                   << result.job << ": " << *result.violation;
  }
}

inline void expect_nothing_whatever_the_rounds_run_over(const JobSearch& search) {
  for (const Over over : {Over::messages, Over::board, Over::boards}) {
    const JobSearchResult result = search_jobs(search, {.first_seed = 2000, .rounds = 2000, .limits = {.over = over}});
    EXPECT_FALSE(result.violation) << search.name << ", seed " << result.violating_seed << ": " << result.job << ": "
                                   << *result.violation;
  }
}

inline void expect_a_function_of_the_seed(const JobSearch& search) {
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    const JobFinding a = run_job(search, seed), b = run_job(search, seed);
    EXPECT_EQ(a.job, b.job);
    EXPECT_EQ(a.messages, b.messages) << search.name << ", seed " << seed;
    EXPECT_EQ(a.reached, b.reached) << search.name << ", seed " << seed;
  }
}

}  // namespace stretto
