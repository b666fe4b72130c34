#include "stretto/check/job_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "stretto/check/testing/each_search.h"

namespace stretto {
namespace {

TEST(JobSearch, FindsNothingInWhatIsRight) {
  for (const JobSearch& search : job_searches()) expect_nothing_in_what_is_right(search);
}

TEST(JobSearch, FindsNothingForAnyNumberOfRanks) {
  for (const JobSearch& search : job_searches()) expect_nothing_for_any_number_of_ranks(search);
}

TEST(JobSearch, FindsNothingWhateverTheRoundsRunOver) {
  for (const JobSearch& search : job_searches()) {
    if (search.takes_over) expect_nothing_whatever_the_rounds_run_over(search);
  }
}

// Of these two the deadlines are so short that a rank which is woken twice for one of them is woken 25 million times in
// the end.
TEST(JobSearch, EndsWhereEveryDeadlineIsShort) {
  const JobSearch& buckets = *std::ranges::find(job_searches(), "buckets", &JobSearch::name);
  for (const auto& [seed, rounds] : {std::pair(2065588835u, 32u), std::pair(1758749682u, 74u)}) {
    const JobFinding finding = run_job(buckets, seed);
    EXPECT_FALSE(finding.violation) << seed << ": " << finding.job << ": " << *finding.violation;
    EXPECT_EQ(finding.rounds, rounds) << finding.job;
  }
}

TEST(JobSearch, IsAFunctionOfTheSeed) {
  for (const JobSearch& search : job_searches()) expect_a_function_of_the_seed(search);
}

}  // namespace
}  // namespace stretto
