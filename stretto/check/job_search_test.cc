#include "stretto/check/job_search.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "stretto/base/defect.h"

namespace stretto {
namespace {

TEST(JobSearch, FindsNothingInWhatIsRight) {
  for (const JobSearch& search : job_searches()) {
    const JobSearchResult result = search_jobs(search, {.rounds = 12'000});
    EXPECT_FALSE(result.violation) << search.name << ", seed " << result.violating_seed << ": " << result.job << ": "
                                   << *result.violation;
    EXPECT_EQ(result.shortfall, "") << search.name;
    EXPECT_GE(result.rounds, 12'000u) << search.name;
  }
}

TEST(JobSearch, FindsNothingForAnyNumberOfRanks) {
  for (const JobSearch& search : job_searches()) {
    for (int ranks : {1, 2, 3, 4, 5, 7, 8, 16, 33}) {
      const JobSearchResult result = search_jobs(search, {.first_seed = 1000, .rounds = 100, .ranks = ranks});
      EXPECT_FALSE(result.violation) << search.name << ", " << ranks << " ranks, seed " << result.violating_seed << ": "
                                     << result.job << ": " << *result.violation;
    }
  }
}

// Of these two the deadlines are so short that a rank which is woken twice for one of them is woken 25 million times in
// the end.
TEST(JobSearch, EndsWhereEveryDeadlineIsShort) {
  const JobSearch& buckets = *find_job_search("buckets");
  for (const auto [seed, rounds] : {std::pair(2065588835u, 32u), std::pair(1758749682u, 74u)}) {
    const JobFinding finding = buckets.run(seed, 0);
    EXPECT_FALSE(finding.violation) << seed << ": " << finding.job << ": " << *finding.violation;
    EXPECT_EQ(finding.rounds, rounds) << finding.job;
  }
}

TEST(JobSearch, IsAFunctionOfTheSeed) {
  for (const JobSearch& search : job_searches()) {
    for (std::uint64_t seed = 1; seed < 20; ++seed) {
      const JobFinding a = search.run(seed, 0), b = search.run(seed, 0);
      EXPECT_EQ(a.job, b.job);
      EXPECT_EQ(a.messages, b.messages) << search.name << ", seed " << seed;
      EXPECT_EQ(a.reached, b.reached) << search.name << ", seed " << seed;
    }
  }
}

TEST(JobSearch, EachHasANameOfItsOwnAndEachDefectASearchThatFindsIt) {
  std::set<std::string_view> names{"partial"};
  for (const JobSearch& search : job_searches()) {
    EXPECT_TRUE(names.insert(search.name).second) << search.name;
    EXPECT_EQ(find_job_search(search.name), &search);
  }
  for (const PlantedDefect& defect : planted_defects()) EXPECT_TRUE(names.contains(defect.collective)) << defect.name;
  EXPECT_EQ(find_job_search("partial"), nullptr);
}

}  // namespace
}  // namespace stretto
