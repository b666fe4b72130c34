#include "command/train/ordering_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stretto::command {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

RunGroup ordered() {
  RunGroup group;
  group.options.algorithm_options.set("ordering", "topo");
  OrderingFigures::Rank rank{.negotiation = 0.0015, .negotiation_share = 0.125, .stall = 0.0004, .stall_share = 0.033};
  rank.buffers = 3;
  rank.step_p50 = 0.0121;
  rank.step_p99 = 0.0342;
  rank.control_bytes = 96;
  rank.cycle_p50 = 0.0051;
  rank.oversleep_p90 = 0.0047;
  rank.oversleep_max = 0.0071;
  RunSummary run;
  run.step_p50 = 0.012;
  run.step_p99 = 0.034;
  run.ordering = OrderingFigures{.ranks = {rank, rank}, .all = rank};
  group.runs.push_back(run);
  return group;
}

TEST(OrderingTable, IsEmptyWithoutAnOrder) {
  RunGroup none;
  none.runs.emplace_back();
  EXPECT_EQ(ordering_table(std::vector{none}), "");
  EXPECT_EQ(ordering_table({}), "");
}

TEST(OrderingTable, HasALineForEachRankAndOneForAll) {
  const std::string text = ordering_table(std::vector{ordered()});
  EXPECT_THAT(text, HasSubstr("topo, a step"));
  for (const char* name : {"rank 0", "rank 1", "all"}) {
    EXPECT_THAT(text, ContainsRegex(std::string(name) +
                                    " *12\\.1 +34\\.2 .* 96 B .* 5\\.10? .*1\\.5.* 12\\.5 %.* 0\\.4.* 3\\.3 "
                                    "%.* 4\\.70? .* 7\\.1"));
  }
  EXPECT_THAT(text, HasSubstr("a step takes 12.0 ms in the middle, 34.0 ms in 1 of 100"));
  EXPECT_THAT(text, Not(HasSubstr("thrown away")));
  EXPECT_THAT(text, Not(HasSubstr("came to an agreement"))) << "there was none";
  EXPECT_NE(text.back(), '\n');
}

TEST(OrderingTable, HasADashForAStallThatNobodyKnows) {
  RunGroup group = ordered();
  group.runs[0].ordering->all.stall.reset();
  group.runs[0].ordering->all.stall_share.reset();
  EXPECT_THAT(ordering_table(std::vector{group}), ContainsRegex("all .*12\\.5 %.*–.*–"));
}

TEST(OrderingTable, HasWhatTheKernelSaysBesideOversleep) {
  RunGroup group = ordered();
  EXPECT_THAT(ordering_table(std::vector{group}),
              HasSubstr("slices of – ms; the control group was throttled in – periods, for – ms"));
  OrderingFigures::Rank& all = group.runs[0].ordering->all;
  all.slice_seconds = 0.003;
  all.throttled_periods = 12;
  all.throttled_seconds = 0.0455;
  EXPECT_THAT(ordering_table(std::vector{group}),
              HasSubstr("slices of 3.00 ms; the control group was throttled in 12 periods, for 45.5 ms"));
}

TEST(OrderingTable, SaysOnWhichCoresTheThreadsRun) {
  RunGroup group = ordered();
  EXPECT_THAT(ordering_table(std::vector{group}), Not(HasSubstr("cores of")));
  group.runs[0].ordering->cores = CoreSets{.application = {0}, .input = {1}, .background = {1}, .overlap = true};
  EXPECT_THAT(
      ordering_table(std::vector{group}),
      HasSubstr("cores of a rank's threads: app 0, input 1, background 1 (shared: fewer cores than the three needed)"));
}

TEST(OrderingTable, HasADashForTheCyclesOfAPlan) {
  RunGroup group = ordered();
  group.runs[0].ordering->ranks.clear();
  group.runs[0].ordering->all.cycle_p50 = 0;
  EXPECT_THAT(ordering_table(std::vector{group}), ContainsRegex("all *12\\.1 +34\\.2 .* 96 B .* – "));
}

TEST(OrderingTable, TellsOfManyRanksTogetherAlone) {
  RunGroup group = ordered();
  group.runs[0].ordering->ranks.resize(9);
  EXPECT_THAT(ordering_table(std::vector{group}), Not(HasSubstr("rank 0")));
}

TEST(OrderingTable, TellsOfChangesAndOfSkew) {
  RunGroup group = ordered();
  OrderingFigures& figures = *group.runs[0].ordering;
  figures.all.deviations = 4;
  figures.all.void_buffers = 17;
  figures.skew_p50 = 0.0025;
  figures.skew_p99 = 0.0125;
  figures.cascade = {0.98, -0.25};
  const std::string text = ordering_table(std::vector{group});
  EXPECT_THAT(text, HasSubstr("the plan was left in 4 steps; 17 buffers were thrown away"));
  EXPECT_THAT(text, HasSubstr("2.50 ms apart in the middle, 12.5 ms in 1 of 100"));
  EXPECT_THAT(text, HasSubstr("0.98, -0.25"));
}

}  // namespace
}  // namespace stretto::command
