#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command/reproduce/experiments.h"

namespace stretto::command {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using namespace std::chrono_literals;

/// As if each group had been run, with these batches per second.
void finish(Experiment& experiment, const std::vector<double>& throughputs) {
  ASSERT_EQ(experiment.groups.size(), throughputs.size());
  for (std::size_t i = 0; i < throughputs.size(); ++i) {
    RunSummary run;
    run.ranks = 64;
    run.throughput = throughputs[i];
    run.wall_seconds = 100;
    run.ideal_seconds = 90;
    run.deposits.applied = static_cast<std::uint64_t>(throughputs[i] * 100);
    run.rounds = static_cast<std::uint64_t>(throughputs[i] / 64 * 100);
    experiment.groups[i].runs = {run};
  }
}

TEST(LateWorkers, AreThePapersInVirtualTime) {
  const auto experiments = wagma_throughput_experiments({.ranks = 64, .steps = 300, .pace = 640ms});
  ASSERT_EQ(experiments.size(), 5u);
  const TrainOptions& options = experiments.back().groups.front().options;
  EXPECT_TRUE(options.simulated);
  EXPECT_TRUE(options.no_gradients);
  EXPECT_EQ(options.ranks, 64);
  EXPECT_EQ(options.model_bytes, 102'236'324u);
  EXPECT_EQ(options.imbalance, "random:ranks=2,delay=320ms");
  EXPECT_EQ(experiments.back().groups.back().options.algorithm, "wagma");
  EXPECT_EQ(experiments[3].groups.front().options.ranks, 1024);
  EXPECT_EQ(experiments[3].groups.front().options.steps, 9u);
  const auto table2 = table2_experiments({.ranks = 64, .steps = 300, .pace = 640ms});
  EXPECT_EQ(table2.at(0).groups.front().options.imbalance, "random:ranks=4,delay=460ms");
}

TEST(LateWorkers, WagmaMustBeAheadOfWhatWaitsForAll) {
  Experiment experiment = wagma_throughput_experiments({.ranks = 64, .steps = 300, .pace = 640ms}).back();
  finish(experiment, {80, 80, 90, 80, 90, 100, 100, 100, 100, 95, 100});
  EXPECT_TRUE(judge_wagma_throughput(experiment).holds);
  EXPECT_THAT(judge_wagma_throughput(experiment).text,
              HasSubstr("Required here, at least 1.25 times sync and local: pass"));
  finish(experiment, {81, 80, 90, 80, 90, 100, 100, 100, 100, 95, 100});
  EXPECT_FALSE(judge_wagma_throughput(experiment).holds);
  EXPECT_THAT(judge_wagma_throughput(experiment).text, HasSubstr("sync and local: FAIL"));
  EXPECT_TRUE(show_wagma_throughput(experiment).holds);
}

/// Which statements do not hold.
std::vector<std::string> failed(const Judgement& judgement) {
  std::vector<std::string> out;
  for (const Statement& statement : judgement.statements) {
    if (!statement.holds) out.push_back(statement.text);
  }
  return out;
}

TEST(LateWorkers, EveryStatementOfThePaperIsJudgedByItself) {
  Experiment experiment = wagma_throughput_experiments({.ranks = 64, .steps = 300, .pace = 640ms}).back();
  finish(experiment, {79, 80, 81, 81, 80, 88, 101, 90, 90, 93, 100});
  EXPECT_THAT(failed(judge_wagma_throughput(experiment)), IsEmpty());
  finish(experiment, {80, 80, 101, 81, 80, 88, 99, 90, 90, 95, 100});
  EXPECT_THAT(failed(judge_wagma_throughput(experiment)),
              ElementsAre("wagma over sync (allreduce)", "wagma over d-psgd", "wagma over wagma, S = P",
                          "ad-psgd is ahead of wagma", "nothing else is"));
}

TEST(LateWorkers, TheGainOfManyRanksIsThatOfThePapersRows) {
  auto experiments = wagma_throughput_experiments({.ranks = 64, .steps = 300, .pace = 640ms});
  finish(experiments[2], {70, 80, 90, 80, 90, 95, 50, 50, 50, 50, 100});  // 256 ranks: 1.43 over sync
  finish(experiments.back(), {75, 80, 90, 80, 90, 95, 50, 50, 50, 50, 100});
  EXPECT_THAT(failed(judge_wagma_scaling(experiments)), IsEmpty());
  finish(experiments.back(), {69, 80, 90, 80, 90, 95, 50, 50, 50, 50, 100});
  EXPECT_THAT(failed(judge_wagma_scaling(experiments)), ElementsAre("it is larger than with 64"));
  finish(experiments[2], {74, 80, 90, 80, 90, 95, 50, 50, 50, 50, 100});
  EXPECT_EQ(failed(judge_wagma_scaling(experiments)).size(), 2u);
  EXPECT_EQ(wagma_throughput_experiments({.ranks = 256, .steps = 300, .pace = 640ms}).size(), 4u) << "256 once";
}

TEST(LateWorkers, Figure11IsJudgedForBothDelays) {
  auto experiments = resnet50_experiments({.ranks = 64, .steps = 300, .pace = 640ms});
  ASSERT_EQ(experiments.size(), 6u);
  EXPECT_EQ(experiments[0].groups[0].options.imbalance, "random:ranks=1,delay=300ms");
  EXPECT_EQ(experiments[4].groups[0].options.imbalance, "random:ranks=4,delay=300ms");
  Experiment &shorter = experiments[4], &longer = experiments[5];
  finish(shorter, {64, 70, 70, 70, 70, 80});  // 1.25
  finish(longer, {62, 70, 70, 70, 70, 80});   // 1.29
  EXPECT_TRUE(judge_resnet50(shorter).holds);
  EXPECT_TRUE(judge_resnet50(longer).holds);
  EXPECT_THAT(failed(judge_resnet50(longer)), IsEmpty()) << "80 batches of 640 ms a second: 51 times one rank";
  EXPECT_THAT(failed(judge_resnet50_delays(experiments)), IsEmpty());
  finish(shorter, {65, 70, 70, 70, 70, 80});
  EXPECT_THAT(failed(judge_resnet50(shorter)), ElementsAre("eager-solo over sync (Deep500)"));
  EXPECT_FALSE(judge_resnet50(shorter).holds);
  finish(shorter, {60, 70, 70, 70, 70, 80});
  EXPECT_FALSE(failed(judge_resnet50_delays(experiments)).empty());
  finish(longer, {59, 70, 70, 70, 70, 77});
  EXPECT_THAT(failed(judge_resnet50(longer)), ElementsAre("eager-solo over one rank alone"));
}

TEST(LateWorkers, TheOrderOfTableTwoIsJudged) {
  Experiment experiment = table2_experiments({.ranks = 64, .steps = 300, .pace = 640ms}).at(0);
  finish(experiment, {500, 60, 65, 76});
  EXPECT_TRUE(judge_table2(experiment).holds) << "the server's place is not";
  finish(experiment, {10, 66, 65, 76});
  EXPECT_FALSE(judge_table2(experiment).holds);
}

}  // namespace
}  // namespace stretto::command
