#include "stretto/check/ordering/ordering_search.h"

#include <gtest/gtest.h>

#include <vector>

namespace stretto {
namespace {

TEST(OrderingSearch, FindsNothingAndReachesWhatItMust) {
  std::vector<std::uint64_t> reached(std::size(kOrderingReaches));
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    const JobFinding finding = run_ordering_job(seed);
    ASSERT_FALSE(finding.violation) << "seed " << seed << ": " << finding.job << ": " << *finding.violation;
    for (std::size_t i = 0; i < reached.size(); ++i) reached[i] += finding.reached[i];
  }
  for (std::size_t i = 0; i < reached.size(); ++i) EXPECT_GT(reached[i], 10u) << kOrderingReaches[i];
}

}  // namespace
}  // namespace stretto
