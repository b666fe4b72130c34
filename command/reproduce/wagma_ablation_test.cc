#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command/reproduce/experiments.h"
#include "command/train/training_options.h"

namespace stretto::command {
namespace {

using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

constexpr int kRuns = 3;

std::vector<Experiment> ablations() {
  return wagma_ablation_experiments({.ranks = 16, .steps = 100, .pace = 12500us});
}

/// As if each group had been run three times, with about this training loss and these seconds.
Experiment finished(const std::vector<double>& losses, const std::vector<double>& seconds) {
  Experiment experiment = ablations().front();
  EXPECT_EQ(experiment.groups.size(), losses.size());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    for (int run = 0; run < kRuns; ++run) {
      RunSummary summary;
      summary.train_loss = losses[i] * (1 + 0.01 * run * static_cast<double>(i));
      summary.accuracy = 0.5;
      summary.wall_seconds = seconds[i];
      experiment.groups[i].runs.push_back(summary);
    }
  }
  return experiment;
}

const std::vector<double> kPaperTimes = {10, 10.7, 10, 10, 10};

TEST(WagmaAblation, EveryRowIsARunThatCanBe) {
  ASSERT_EQ(ablations().size(), 2u);
  for (const Experiment& experiment : ablations()) {
    for (const RunGroup& group : experiment.groups) {
      EXPECT_NO_THROW(check_training(group.options)) << group.label;
      EXPECT_TRUE(group.options.simulated);
      EXPECT_FALSE(group.options.no_gradients);
      EXPECT_EQ(group.options.ranks, 16);
      EXPECT_EQ(group.options.data, "labels:3");
    }
  }
  const std::vector<RunGroup> groups = ablations().front().groups;
  EXPECT_EQ(groups.at(1).options.algorithm, "wagma:16");
  EXPECT_EQ(groups.at(2).options.algorithm, "wagma:2");
  EXPECT_EQ(groups.at(3).options.algorithm_options.word("group-order", ""), "fixed");
  EXPECT_EQ(groups.at(4).options.algorithm, "local");
  EXPECT_EQ(groups.at(4).options.sync_every, 10u);
}

TEST(WagmaAblation, ThePapersOrderHolds) {
  const Judgement judgement = judge_wagma_ablation(finished({0.2, 0.2, 0.3, 0.25, 0.6}, kPaperTimes));
  EXPECT_TRUE(judgement.holds) << judgement.text;
  EXPECT_THAT(judgement.text, Not(HasSubstr("FAIL")));
  EXPECT_TRUE(judge_wagma_ablation(finished({0.2, 0.3, 0.25, 0.3, 0.6}, kPaperTimes)).holds)
      << "which of fixed and small groups is better is left open";
}

TEST(WagmaAblation, AnotherOrderFails) {
  EXPECT_FALSE(judge_wagma_ablation(finished({0.2, 0.1, 0.3, 0.3, 0.6}, kPaperTimes)).holds) << "all ranks are better";
  EXPECT_FALSE(judge_wagma_ablation(finished({0.2, 0.2, 0.3, 0.19, 0.6}, kPaperTimes)).holds) << "so are fixed groups";
  EXPECT_FALSE(judge_wagma_ablation(finished({0.2, 0.2, 0.3, 0.3, 0.25}, kPaperTimes)).holds) << "so are none";
  const Judgement fast = judge_wagma_ablation(finished({0.2, 0.2, 0.3, 0.3, 0.6}, {10, 9, 10, 10, 10}));
  EXPECT_FALSE(fast.holds) << "one group of all is faster";
  EXPECT_THAT(fast.text, HasSubstr("FAIL"));
}

}  // namespace
}  // namespace stretto::command
