#include "stretto/check/threshold/threshold_search.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

TEST(ThresholdSearch, FindsNothingAndReachesMessagesThatNoRoundNeeded) {
  std::uint64_t rounds = 0, unneeded = 0;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    const JobFinding finding = run_threshold_job(seed);
    ASSERT_FALSE(finding.violation) << "seed " << seed << ": " << finding.job << ": " << *finding.violation;
    rounds += finding.rounds;
    unneeded += finding.reached[0];
  }
  EXPECT_GT(rounds, 3000u);
  EXPECT_GT(unneeded, rounds / 4);
}

}  // namespace
}  // namespace stretto
