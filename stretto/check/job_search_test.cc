#include "stretto/check/job_search.h"

#include <gtest/gtest.h>

#include <set>

#include "stretto/base/defect.h"
#include "stretto/check/partial/search.h"

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

#ifdef STRETTO_DEFECTS
/// Of the search that must find it.
std::optional<std::string> violation_with(const PlantedDefect& defect) {
  switch_on(defect.which);
  const JobSearch* search = find_job_search(defect.collective);
  std::optional<std::string> violation = search == nullptr
                                             ? stretto::search({.first_seed = 1, .rounds = 200'000}).violation
                                             : search_jobs(*search, {.rounds = 200'000}).violation;
  switch_on(Defect::none);
  return violation;
}

class Planted : public testing::TestWithParam<PlantedDefect> {};

TEST_P(Planted, IsFound) {
  EXPECT_TRUE(violation_with(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Every, Planted, testing::ValuesIn(planted_defects().begin(), planted_defects().end()),
                         [](const auto& defect) {
                           std::string name(defect.param.name);
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });
#endif

}  // namespace
}  // namespace stretto
