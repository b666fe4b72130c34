#include <gtest/gtest.h>

#include "stretto/check/harness/searches.h"
#include "stretto/check/job_searches.h"

namespace stretto {
namespace {

void expect_clean(const JobSearchOptions& options) {
  const JobSearchResult result = search_jobs(job_searches().front(), options);
  EXPECT_FALSE(result.violation) << *result.violation << "\n" << result.job;
  EXPECT_GE(result.rounds, options.rounds);
}

TEST(PartialSearch, FindsNothingUnderAnyOnePolicy) {
  for (Policy::Kind kind :
       {Policy::Kind::full, Policy::Kind::solo, Policy::Kind::majority, Policy::Kind::quorum, Policy::Kind::deadline}) {
    expect_clean({.first_seed = 77, .rounds = 500, .limits = {.policy = kind}});
    expect_clean({.first_seed = 3000, .rounds = 500, .limits = {.over = Over::boards, .policy = kind}});
  }
}

}  // namespace
}  // namespace stretto
