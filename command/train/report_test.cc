#include "command/train/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "command/cli/table.h"

namespace stretto::command {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

RunSummary run(std::uint64_t seed, double throughput, std::optional<double> accuracy) {
  RunSummary run;
  run.seed = seed;
  run.ranks = 4;
  run.throughput = throughput;
  run.accuracy = accuracy;
  run.loss = 0.5;
  run.ideal_seconds = 2;
  run.sync_ideal_seconds = 3;
  run.deposits = {.made = 100, .applied = 100};
  run.replicas_identical = true;
  run.lost_seconds = {0, 0, 0, 1.5};
  return run;
}

std::vector<RunGroup> groups() {
  TrainOptions options;
  options.ranks = 4;
  options.imbalance = "persistent:rank=3,factor=3";
  return {{"sync", options, {run(1, 100, 0.90), run(2, 120, 0.92)}},
          {"eager-solo", options, {run(1, 200, 0.91), run(2, 180, 0.91)}}};
}

TEST(Report, SpeedupsArePairedBySeed) {
  const auto all = groups();
  EXPECT_THAT(speedups(all[0], all[0]), ElementsAre(1, 1));
  EXPECT_THAT(speedups(all[0], all[1]), ElementsAre(2, 1.5));
  EXPECT_DOUBLE_EQ(ideal_speedup(all[0].runs[0]), 1.5);
  EXPECT_DOUBLE_EQ(share_of_ideal(all[0].runs[0]), 2);  // 100 a second where 100 in 2 seconds were possible
}

TEST(Report, PairedDifferencesHaveIntervals) {
  const auto all = groups();
  const PairedDifferences paired = paired_differences(all[0], all[1]);
  EXPECT_NEAR(paired.speedup.estimate, std::sqrt(3.0), 1e-12);
  EXPECT_LT(paired.speedup.low, paired.speedup.estimate);
  ASSERT_TRUE(paired.accuracy.has_value());
  EXPECT_NEAR(paired.accuracy->estimate, 0, 1e-12);  // + 1 point and − 1 point
  EXPECT_NEAR(paired.accuracy->high, 12.706204736 * 0.01, 1e-9);
}

TEST(Report, WhatAWorkloadDoesNotHaveIsNull) {
  auto all = groups();
  for (RunGroup& group : all) {
    for (RunSummary& run : group.runs) run.accuracy.reset();
  }
  EXPECT_FALSE(paired_differences(all[0], all[1]).accuracy.has_value());
  const auto json = to_json(all, Machine{});
  EXPECT_TRUE(json["runs"][0]["accuracy"].is_null());
  EXPECT_TRUE(json["paired"][0]["accuracy"].is_null());
  EXPECT_THAT(comparison_table(all), HasSubstr("–"));
}

TEST(Report, TheTableFitsIntoAHundredColumns) {
  auto all = groups();
  all[1].label = "eager-quorum:4";
  for (RunGroup& group : all) {
    for (RunSummary& run : group.runs) run.train_loss = run.train_accuracy = run.top5 = run.train_top5 = run.accuracy;
  }
  std::istringstream lines(comparison_table(all) + score_table(all) + paired_table(all));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(width_of(line), 100u) << line;
}

TEST(Report, ShowsTrainingBesideTestAndFiveGuessesBesideOne) {
  auto all = groups();
  all.resize(1);
  for (RunSummary& run : all[0].runs) {
    run.train_loss = 0.25;
    run.train_accuracy = 0.75;
  }
  const auto words_of_last_line = [](const std::string& table) {
    std::istringstream lines(table);
    std::string line, last;
    while (std::getline(lines, line)) last = line;
    std::istringstream in(last);
    return std::vector<std::string>(std::istream_iterator<std::string>(in), {});
  };
  EXPECT_THAT(score_table(all), Not(HasSubstr("top-5")));
  EXPECT_EQ(score_table(groups()), "") << "nothing is known of training data";
  EXPECT_THAT(words_of_last_line(score_table(all)),
              ElementsAre("sync,", "average", "0.250", "±", "0.000", "75.0", "±", "0.0", "%"));
  for (RunSummary& run : all[0].runs) {
    run.top5 = 0.5;
    run.train_top5 = 1;
  }
  EXPECT_THAT(score_table(all), HasSubstr("train acc.  train top-5     test acc.    test top-5\n"));
  EXPECT_THAT(words_of_last_line(score_table(all)),
              ElementsAre("sync,", "average", "0.250", "±", "0.000", "75.0", "±", "0.0", "%", "100", "±", "0", "%",
                          "91.0", "±", "1.4", "%", "50.0", "±", "0.0", "%"));
}

TEST(Report, ConcludesInOneSentence) {
  auto all = groups();
  EXPECT_THAT(conclusion(all), StartsWith("eager-solo applies 1.73× as many batches/s as sync at equal accuracy "
                                          "(difference -12.7 to +12.7 points)"));
  for (auto& run : all[1].runs) run.accuracy = *run.accuracy - 0.5;
  all[1].runs[0].accuracy = 0.40;
  all[1].runs[1].accuracy = 0.42;
  EXPECT_THAT(conclusion(all), HasSubstr("as sync, at accuracy lower by 50.0 points (-50.0 to -50.0 points)"));
  auto exact = all[0];
  exact.label = "exact";
  all.push_back(exact);
  EXPECT_THAT(conclusion(all), StartsWith("exact applies 1.00×")) << "not the one that learns less";
  for (RunGroup& group : all) {
    for (RunSummary& run : group.runs) run.accuracy.reset();
  }
  EXPECT_THAT(conclusion(all), HasSubstr("at equal test loss (difference"));
  for (RunGroup& group : all) group.runs.resize(1);
  EXPECT_THAT(conclusion(all), HasSubstr("one run of each says nothing of accuracy"));
  all.resize(1);
  EXPECT_EQ(conclusion(all), "");
}

TEST(Report, SaysWhyASpeedUpExceedsTheIdeal) {
  auto all = groups();
  for (RunGroup& group : all) group.options.algorithm = group.label;
  EXPECT_THAT(about_the_ideal(all), Not(HasSubstr("exceeds"))) << "this sync is faster than its ideal";
  for (RunSummary& run : all[0].runs) run.throughput /= 10;
  EXPECT_THAT(about_the_ideal(all), HasSubstr("eager-solo exceeds it: the sync measured here loses another 67 %"));
}

TEST(Report, JsonHasTheFieldsThatProgramsRead) {
  const auto json = to_json(groups(), Machine{});
  ASSERT_EQ(json["runs"].size(), 4u);
  const auto& run = json["runs"][3];
  EXPECT_EQ(run["algorithm"], "eager-solo");
  EXPECT_EQ(run["seed"], 2);
  EXPECT_EQ(run["throughput"], 180);
  EXPECT_EQ(run["speedup"], 1.5);
  EXPECT_EQ(run["ideal_speedup"], 1.5);
  EXPECT_EQ(run["deposits"]["lost"], 0);
  EXPECT_TRUE(run["replicas_identical"]);
  for (const char* field :
       {"loss", "accuracy", "rounds_per_batch", "staleness", "wait_share", "messages_per_step", "bytes_per_step"}) {
    EXPECT_TRUE(run.contains(field)) << field;
  }
  EXPECT_EQ(json["imbalance"], "persistent:rank=3,factor=3");
  EXPECT_TRUE(json["pace"].is_null());
  EXPECT_TRUE(json["machine"].is_object());
}

TEST(Report, OneRunHasNoIntervals) {
  auto all = groups();
  for (RunGroup& group : all) group.runs.resize(1);
  EXPECT_EQ(paired_table(all), "");
  EXPECT_TRUE(to_json(all, Machine{})["paired"].empty());
}

TEST(Report, SaysWhatIsRealAndWhatIsNot) {
  TrainOptions options;
  EXPECT_THAT(conditions(options, "image"), HasSubstr("natural"));
  EXPECT_THAT(conditions(options, "image"), HasSubstr("unpaced"));
  options.imbalance = "random:ranks=1,delay=200ms";
  options.pace = std::chrono::microseconds(50);
  EXPECT_EQ(conditions(options, "image"),
            "imbalance random:ranks=1,delay=200ms (injected); pace 50us per image (emulated by sleeping)");
  options.simulated = true;
  options.network = "latency=1us";
  EXPECT_EQ(conditions(options, "image"),
            "imbalance random:ranks=1,delay=200ms (injected); pace 50us per image (simulated: all times are virtual); "
            "network latency=1us");
}

TEST(Report, LedgerNamesTheRankThatCostMost) {
  const auto all = groups();
  EXPECT_EQ(
      ledger_text(all[1]),
      "eager-solo: 200 gradients made, 200 applied, 0 pending, 0 lost; contributions 0 % fresh, 100 % stale; waited "
      "for others 3.0 s in all, 100 % of it for rank 3");
  auto kept = all[1];
  for (RunSummary& run : kept.runs) run.deposits.kept = 62.04;
  EXPECT_THAT(ledger_text(kept),
              HasSubstr("200 applied, 0 pending, 0 lost, the movement of 124.1 kept; contributions"));
  auto one = all[1];
  one.runs[0].deposits.passed_over = 1.5;
  one.runs[1].deposits.passed_over = 4;
  EXPECT_THAT(ledger_text(one), HasSubstr("200 applied, 5.5 of them passed over by a replica on average, 0 pending"));
  one.runs.resize(1);
  one.runs[0].ledger = "a table\n";
  EXPECT_EQ(ledger_text(one), "eager-solo:\na table\n");
}

TEST(Report, SaysWhatIsSentInAStep) {
  auto all = groups();
  all[1].runs[0].messages_per_step = 2;
  all[1].runs[1].messages_per_step = 3;
  all[1].runs[0].bytes_per_step = all[1].runs[1].bytes_per_step = 512;
  EXPECT_EQ(traffic_text(all), "sent by a rank in a step: sync no message; eager-solo 2.50 messages, 512 B");
}

TEST(Report, BrokenPromisesAreTold) {
  auto all = groups();
  EXPECT_EQ(broken_promise(all[0]), "");
  all[0].runs[1].replicas_identical = false;
  EXPECT_EQ(broken_promise(all[0]), "sync, seed 2: the replicas differ");
  all[0].options.delivery = "latest";
  EXPECT_EQ(broken_promise(all[0]), "");
  all[0].runs[1].deposits.lost = 3;
  EXPECT_EQ(broken_promise(all[0]), "sync, seed 2: 3 gradients were lost");
}

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

TEST(LinesTable, HasARowForEachDimension) {
  RunGroup grid{.label = "grid", .options = {}, .runs = {}}, none = grid;
  none.runs.emplace_back();
  EXPECT_EQ(lines_table(std::vector{none}), "");
  RunSummary run;
  run.deposits.made = 10;
  const GridCounts fast{.applied = 11,
                        .fresh = 30,
                        .null = 10,
                        .to_apply = std::chrono::seconds(2),
                        .contributed = 4,
                        .steps_between = 10};
  const GridCounts slow{.forced = 2, .applied = 5, .missing = 40, .late = 20, .bytes_sent = 10240, .steps_between = 8};
  run.lines = {{fast, slow}, {fast, fast}};
  run.apart = {0.125, 0.25};
  grid.runs.push_back(run);
  const std::string text = lines_table(std::vector{grid});
  EXPECT_THAT(text,
              ContainsRegex(
                  "grid, dimension 0 +8\\.00 +1\\.50 +2\\.00 +0\\.500 +38 % +12 % +50 % +25 % +2 +0 +0 +0 +1\\.0 KiB"));
  EXPECT_THAT(
      text, HasSubstr("grid: a rank's model was 12.5 % to 25.0 % from the average of all (of its norm) when all met"));
  EXPECT_THAT(text, ContainsRegex("grid, dimension 1 +11\\.0 +1\\.00 +1\\.00 +0\\.500 +75 % +25 % +0 % +0 % +0 +0 +0"));
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
