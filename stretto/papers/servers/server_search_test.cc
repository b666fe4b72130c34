#include "stretto/papers/servers/server_search.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

TEST(ServerSearch, FindsNothingAndReachesWhatOnlyLateRanksBringAbout) {
  std::vector<std::uint64_t> reached(std::size(kServerReaches));
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    const JobFinding finding = run_server_job(seed);
    ASSERT_FALSE(finding.violation) << "seed " << seed << ": " << finding.job << ": " << *finding.violation;
    for (std::size_t i = 0; i < reached.size(); ++i) reached[i] += finding.reached[i];
  }
  for (std::size_t i = 0; i < reached.size(); ++i) EXPECT_GT(reached[i], 20u) << kServerReaches[i];
}

}  // namespace
}  // namespace stretto
