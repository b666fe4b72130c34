#include "command/reproduce/group_latency.h"

#include <gtest/gtest.h>

namespace stretto::command {
namespace {

using namespace std::chrono_literals;

TEST(GroupLatency, IsMeasuredOfEachSizeInEveryRound) {
  const GroupLatencyExperiment experiment{.ranks = 3, .group_sizes = {2, 3}, .bytes = 4096, .rounds = 4, .skew = 100us};
  const GroupLatencies measured = measure_group_latency(experiment).or_throw();
  EXPECT_EQ(measured.solo.size(), 4u);
  ASSERT_EQ(measured.groups.size(), 2u);
  for (const auto& group : measured.groups) EXPECT_EQ(group.size(), 4u);
  for (const double latency : measured.solo) EXPECT_GT(latency, 0);
}

TEST(GroupLatency, IsComparedRoundByRoundWithTheShareOfTheRanks) {
  const GroupLatencyExperiment experiment{.ranks = 8, .group_sizes = {2, 4}};
  const GroupLatencies measured{.solo = {8, 4}, .groups = {{2, 2}, {4, 2}}};
  EXPECT_EQ(over_share(experiment, measured, 0), (std::vector<double>{1, 2}));
  EXPECT_EQ(over_share(experiment, measured, 1), (std::vector<double>{1, 1}));
}

}  // namespace
}  // namespace stretto::command
