#include "stretto/check/diloco/diloco_search.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

TEST(DilocoSearch, SaysWhatTheJobWas) {
  const JobFinding finding = run_diloco_job(1, 4);
  EXPECT_FALSE(finding.violation) << *finding.violation;
  EXPECT_NE(finding.job.find("4 ranks"), std::string::npos) << finding.job;
  EXPECT_NE(finding.job.find("a phase of"), std::string::npos) << finding.job;
  EXPECT_GT(finding.rounds, 0u);
}

TEST(DilocoSearch, ComesToEveryKindOfRoundInAFewHundredJobs) {
  std::vector<std::uint64_t> reached(std::size(kDilocoReaches));
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const JobFinding finding = run_diloco_job(seed);
    ASSERT_FALSE(finding.violation) << "seed " << seed << ": " << *finding.violation;
    for (std::size_t i = 0; i < reached.size(); ++i) reached[i] += finding.reached[i];
  }
  for (std::size_t i = 0; i < reached.size(); ++i) EXPECT_GT(reached[i], 50u) << kDilocoReaches[i];
}

}  // namespace
}  // namespace stretto
