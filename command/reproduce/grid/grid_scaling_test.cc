#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command/reproduce/experiments.h"
#include "command/train/training_options.h"

namespace stretto::command {
namespace {

using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

std::vector<Experiment> scaling() {
  return grid_scaling_experiments({.ranks = 64, .steps = 1000, .pace = 662ms});
}

/// As if each group had trained for 100 s without waiting, had made such shares of the ideal, and had waited meanwhile
/// for as large a share.
Experiment with_shares(Experiment experiment, const std::vector<double>& shares) {
  EXPECT_EQ(experiment.groups.size(), shares.size());
  for (std::size_t i = 0; i < shares.size(); ++i) {
    RunSummary run;
    run.ideal_seconds = 100;
    run.wall_seconds = 100 / shares[i];
    run.wait_share = 1 - shares[i];
    run.deposits.applied = 1000;
    run.throughput = 1000 / run.wall_seconds;
    experiment.groups[i].runs.push_back(run);
  }
  return experiment;
}

TEST(GridScaling, EveryRowIsARunThatCanBe) {
  const auto experiments = scaling();
  ASSERT_EQ(experiments.size(), 5u);
  for (const Experiment& experiment : experiments) {
    ASSERT_EQ(experiment.groups.size(), experiment.expect.size());
    for (const RunGroup& group : experiment.groups) {
      EXPECT_NO_THROW(check_training(group.options)) << experiment.title << ", " << group.label;
      EXPECT_EQ(group.options.model_bytes, 249'513'376u);
    }
  }
  EXPECT_EQ(experiments[1].groups[2].options.model_buckets, 4) << "a part of the model for each server";
  EXPECT_EQ(experiments[3].groups.back().label, "grid, d = 6");
  const RunGroup& lost = experiments[4].groups.back();
  EXPECT_EQ(lost.label, "grid, d = 4") << "with as many as may be left";
  EXPECT_LT(lost.options.steps, lost.options.sync_every) << "one full round, at the end";
  const auto most = grid_scaling_experiments({.ranks = 1024, .steps = 1000, .pace = 662ms});
  EXPECT_EQ(most[3].groups[1].label, "grid, d = 2");
  EXPECT_EQ(most[3].groups.back().label, "grid, d = 10");
  EXPECT_NO_THROW(check_training(most[4].groups.back().options));
}

TEST(GridScaling, IsBesideThePapersSharesAndFallsWithOurs) {
  const Judgement judgement = judge_grid_scaling(with_shares(scaling()[1], {0.96, 0.97, 0.4, 0.44}));
  EXPECT_TRUE(judgement.holds) << judgement.text;
  EXPECT_THAT(judgement.text, Not(HasSubstr("FAIL")));
  ASSERT_EQ(judgement.statements.size(), 4u);
  EXPECT_EQ(judgement.statements.front().paper, "87 %");
  EXPECT_EQ(judgement.statements.back().paper, "44 %");
  EXPECT_EQ(judge_grid_scaling(with_shares(scaling()[2], {0.96, 0.97, 0.4, 0.44})).statements.back().paper, "36 %");
  for (const std::vector<double>& fallen : {std::vector<double>{0.94, 0.97, 0.4, 0.44},
                                            {0.96, 0.94, 0.4, 0.44},
                                            {0.96, 0.97, 0.51, 0.44},
                                            {0.96, 0.97, 0.4, 0.51}}) {
    const Judgement falls = judge_grid_scaling(with_shares(scaling()[1], fallen));
    EXPECT_FALSE(falls.holds) << falls.text;
    EXPECT_THAT(falls.text, HasSubstr("FAIL"));
  }
  EXPECT_TRUE(judge_grid_scaling(with_shares(scaling()[0], {1, 1, 1, 1})).statements.empty());
}

TEST(GridScaling, ManyNodesWaitForNobody) {
  const Experiment late = scaling()[3];
  EXPECT_TRUE(judge_many_nodes(with_shares(late, {0.2, 0.96, 0.96, 0.96, 0.96})).holds);
  EXPECT_FALSE(judge_many_nodes(with_shares(late, {0.2, 0.96, 0.94, 0.96, 0.96})).holds) << "it waits";
  EXPECT_FALSE(judge_many_nodes(with_shares(late, {0.5, 0.96, 0.96, 0.96, 0.96})).holds) << "sync is as fast";
}

TEST(GridScaling, NodesThatAreLostAreJudgedByTheirBatches) {
  const auto lost = [](const std::vector<double>& shares) {
    Experiment experiment = with_shares(scaling()[4], shares);
    for (RunGroup& group : experiment.groups) {
      MembersFigures& members = group.runs.front().members.emplace();
      members.worlds.resize(2);
      members.worlds[0].members.resize(64);
      members.worlds[1].members.resize(63);
      members.worlds[1].seconds = 50;
    }
    return judge_many_nodes(experiment);
  };
  EXPECT_TRUE(lost({0.2, 0.7, 0.7, 0.7, 0.7}).holds);
  const Judgement falls = lost({0.2, 0.7, 0.39, 0.7, 0.7});
  EXPECT_FALSE(falls.holds);
  EXPECT_THAT(falls.text, HasSubstr("changes"));
}

}  // namespace
}  // namespace stretto::command
