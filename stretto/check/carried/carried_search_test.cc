#include <gtest/gtest.h>

#include <algorithm>

#include "stretto/check/job_searches.h"

namespace stretto {
namespace {

const JobSearch& carried_search() {
  return *std::ranges::find(job_searches(), "carried", &JobSearch::name);
}

std::uint64_t reached(const JobSearchResult& result, std::string_view situation) {
  const auto reaches = carried_search().reaches;
  const auto at = std::ranges::find(reaches, situation, &Situation::name) - reaches.begin();
  return result.reached[static_cast<std::size_t>(at)];
}

JobSearchResult expect_clean_changes(const JobSearchOptions& options) {
  JobSearchResult result = search_jobs(carried_search(), options);
  EXPECT_FALSE(result.violation) << *result.violation << "\n" << result.job;
  EXPECT_GE(result.rounds, options.rounds);
  return result;
}

TEST(CarriedSearch, FindsNothingUnderAnyOnePolicy) {
  for (Policy::Kind kind :
       {Policy::Kind::full, Policy::Kind::solo, Policy::Kind::majority, Policy::Kind::quorum, Policy::Kind::deadline}) {
    expect_clean_changes({.first_seed = 77, .rounds = 2000, .limits = {.policy = kind}});
  }
}

/// A search of changes at which all ranks hold the same and bring nothing would find little.
TEST(CarriedSearch, ReachesRanksThatAreBehindHoweverTheyMeet) {
  for (const Over over : {Over::messages, Over::board, Over::boards}) {
    const JobSearchResult result = expect_clean_changes({.rounds = 10'000, .limits = {.over = over}});
    const std::uint64_t changes = reached(result, "changes of members");
    EXPECT_GE(20 * reached(result, "changes with a rank behind by one or more"), changes);
    EXPECT_GE(reached(result, "changes with a rank behind by two or more"), 5u);
    EXPECT_GE(5 * reached(result, "changes with deposits carried"), changes);
  }
}

}  // namespace
}  // namespace stretto
