#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command/reproduce/experiments.h"

namespace stretto::command {
namespace {

using testing::HasSubstr;
using testing::Not;

RunGroup group(const char* label, double throughput, double staleness) {
  RunSummary run;
  run.throughput = throughput;
  run.rounds_per_batch = 1;
  run.staleness_mean = staleness;
  return {label, {}, {run}};
}

TEST(VirtualTime, EveryAlgorithmRunsLiveAndSimulatedOnHalfAndOnAllRanks) {
  const auto experiments = virtual_time_experiments({.ranks = 8, .epochs = 1, .pace = std::chrono::milliseconds(4)});
  ASSERT_EQ(experiments.size(), 2u);
  EXPECT_EQ(experiments[0].groups[0].options.ranks, 4);
  EXPECT_EQ(experiments[1].groups[0].options.ranks, 8);
  for (const Experiment& experiment : experiments) {
    ASSERT_EQ(experiment.groups.size() % 2, 0u);
    for (std::size_t pair = 0; pair < experiment.groups.size(); pair += 2) {
      const TrainOptions &live = experiment.groups[pair].options, &simulated = experiment.groups[pair + 1].options;
      EXPECT_FALSE(live.simulated);
      EXPECT_TRUE(simulated.simulated);
      EXPECT_EQ(live.algorithm, simulated.algorithm);
      EXPECT_EQ(live.pace, simulated.pace);
    }
  }
}

TEST(VirtualTime, PassesWhatIsWithinTheBoundsAndFailsWhatIsNot) {
  Experiment close{"", {group("solo", 100, 0.1), group("solo, simulated", 102.9, 0.129)}, {"", ""}, nullptr};
  EXPECT_TRUE(judge_virtual_time(close).holds);
  EXPECT_THAT(judge_virtual_time(close).text, Not(HasSubstr("FAIL")));
  Experiment fast{"", {group("solo", 100, 0.1), group("solo, simulated", 103.1, 0.1)}, {"", ""}, nullptr};
  EXPECT_FALSE(judge_virtual_time(fast).holds);
  EXPECT_THAT(judge_virtual_time(fast).text, HasSubstr("FAIL"));
  Experiment stale{"", {group("solo", 100, 1), group("solo, simulated", 100, 1.06)}, {"", ""}, nullptr};
  EXPECT_FALSE(judge_virtual_time(stale).holds);
}

}  // namespace
}  // namespace stretto::command
