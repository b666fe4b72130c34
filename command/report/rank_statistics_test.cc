#include "command/report/rank_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace stretto::command {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

RecordedStep step(float seconds, std::optional<std::uint32_t> staleness = {}) {
  return {.computed = seconds, .staleness = staleness};
}

TEST(RankStatistics, AreOfStepsWithoutTheirWait) {
  const std::vector<RecordedStep> steps{{.computed = 1, .delayed = 1, .waited = 8, .staleness = 0},
                                        {.computed = 4, .waited = 1, .staleness = 2},
                                        {.computed = 6}};
  const RankStatistics statistics = statistics_of(steps);
  EXPECT_EQ(statistics.steps, 3u);
  EXPECT_EQ(statistics.mean, 4);
  EXPECT_EQ(statistics.deviation, 2);
  EXPECT_EQ(statistics.least, 2);
  EXPECT_EQ(statistics.most, 6);
  EXPECT_EQ(statistics.computed, 11);
  EXPECT_EQ(statistics.delayed, 1);
  EXPECT_EQ(statistics.waited, 9);
  EXPECT_EQ(statistics.fresh, 1u);
  EXPECT_EQ(statistics.stale, 1u);
}

TEST(RankStatistics, OfNoStepAreNoNumbers) {
  const RankStatistics none = statistics_of({});
  EXPECT_TRUE(std::isnan(none.mean) && std::isnan(none.deviation) && std::isnan(none.least) && std::isnan(none.most));
}

TEST(Bars, GoFromTheShortestToTheLongestStepOfAllRuns) {
  std::vector<RecordedRun> runs(2);
  runs[0].ranks = {{step(1), step(2)}, {}};
  runs[1].ranks = {{step(61)}};
  runs[1].ranks[0].resize(200, step(31));
  const Bars bars = bars_of(runs);
  EXPECT_EQ(bars.from, 1);
  EXPECT_EQ(bars.width, 1);
  EXPECT_EQ(bars.count, 60u);
  EXPECT_FALSE(bars.open);
  const auto counts = histogram(runs[1].ranks[0], bars);
  EXPECT_EQ(counts[30], 199u);
  EXPECT_EQ(counts[59], 1u) << "the longest is in the last bar";
}

TEST(Bars, AFewStepsThatAreMuchLongerShareTheLast) {
  std::vector<RecordedRun> runs(1);
  runs[0].ranks = {std::vector<RecordedStep>(1000, step(2))};
  runs[0].ranks[0][0] = step(0);
  runs[0].ranks[0][1] = step(700);
  const Bars bars = bars_of(runs);
  EXPECT_TRUE(bars.open);
  EXPECT_DOUBLE_EQ(bars.width * 60, 3);
  EXPECT_EQ(histogram(runs[0].ranks[0], bars).back(), 1u);
}

TEST(Bars, OfStepsThatAreAllAlikeAreOne) {
  std::vector<RecordedRun> runs(1);
  runs[0].ranks = {{step(2), step(2)}};
  EXPECT_THAT(histogram(runs[0].ranks[0], bars_of(runs)), ElementsAre(2));
}

TEST(StalenessHistogram, CountsTheBatchesWhoseRoundIsKnown) {
  RecordedRun run;
  run.ranks = {{step(1, 0), step(1, 2), step(1)}, {step(1, 2)}};
  EXPECT_THAT(staleness_histogram(run), ElementsAre(1, 0, 2));
  run.ranks = {{step(1)}};
  EXPECT_THAT(staleness_histogram(run), IsEmpty());
}

}  // namespace
}  // namespace stretto::command
