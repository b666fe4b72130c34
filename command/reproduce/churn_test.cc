#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command/reproduce/experiments.h"
#include "command/statistics/restarts.h"

namespace stretto::command {
namespace {

using testing::HasSubstr;
using testing::Not;

/// A run of 4 members of steps of a second, of which one is gone for the second half; each of `changes` has cost every
/// member so many seconds.
RunSummary churned_run(std::size_t changes, double each) {
  RunSummary run;
  run.wall_seconds = 1000;
  MembersFigures members;
  members.worlds.push_back({.epoch = 1, .rounds = 0, .seconds = 0, .members = {0, 1, 2, 3}});
  for (std::size_t change = 1; change <= changes; ++change) {
    members.worlds.push_back({.epoch = 1 + change, .rounds = 1, .seconds = 500, .members = {0, 1, 2}});
  }
  run.deposits.applied = static_cast<std::uint64_t>(3500 - each * 3.5 * static_cast<double>(changes));
  run.throughput = static_cast<double>(run.deposits.applied) / run.wall_seconds;
  run.members = members;
  return run;
}

Experiment churned(double sync, double eager) {
  auto experiments = churn_experiments({.ranks = 4, .steps = 10, .pace = std::chrono::seconds(1)});
  Experiment one = experiments.front();  // half an hour: restarts keep 93 %
  for (RunGroup& group : one.groups) {
    group.options.sync_every = 8;
    group.runs = {churned_run(40, group.options.algorithm == "sync" ? sync : eager)};
  }
  return one;
}

TEST(ReproduceChurn, RunsWhereMembersChangeInVirtualTime) {
  const auto experiments = churn_experiments({.ranks = 64, .steps = 10, .pace = std::chrono::seconds(1)});
  ASSERT_EQ(experiments.size(), 4u);
  for (const Experiment& experiment : experiments) {
    for (const RunGroup& group : experiment.groups) {
      EXPECT_TRUE(group.options.simulated && group.options.no_gradients);
      EXPECT_GT(group.options.least, 0);
      EXPECT_THAT(group.options.churn, HasSubstr("life="));
    }
  }
  EXPECT_EQ(experiments[0].groups[0].options.ranks, 16);
  EXPECT_EQ(experiments[3].groups[0].options.ranks, 64);
}

TEST(ReproduceChurn, CountsTheTimeOfMembersThatAreThere) {
  const MembersCost cost = members_cost(churned_run(10, 2), 1);
  EXPECT_EQ(cost.changes, 10u);
  EXPECT_DOUBLE_EQ(cost.members, 3.5);
  EXPECT_NEAR(cost.steps_a_change, 2, 0.05);
  EXPECT_NEAR(cost.lost_share, 0.02, 0.001);
}

TEST(ReproduceChurn, FailsWhereAChangeCostsMoreOrLessThanReckoned) {
  EXPECT_TRUE(judge_churn(churned(1, 0.2)).holds);
  EXPECT_THAT(judge_churn(churned(1, 0.2)).text, Not(HasSubstr("FAIL")));
  EXPECT_FALSE(judge_churn(churned(1.5, 0.2)).holds);
  EXPECT_FALSE(judge_churn(churned(0.5, 0.2)).holds);
  EXPECT_FALSE(judge_churn(churned(1, 1.5)).holds);
  EXPECT_THAT(judge_churn(churned(1, 20)).text, HasSubstr("FAIL")) << "slower than restarts";
}

TEST(ReproduceChurn, RestartsKeepLessWhereMoreMembersAreLost) {
  EXPECT_NEAR(restarts_keep({.members = 1, .life = 1e9}), 1, 1e-6);
  // 64 members of two hours: a loss every 112.5 s, which costs about 4.4 s and half of 50.
  EXPECT_NEAR(restarts_keep({.members = 64, .life = 7200}), 0.764, 0.01);
  EXPECT_LT(restarts_keep({.members = 256, .life = 7200}), restarts_keep({.members = 64, .life = 7200}));
  EXPECT_LT(restarts_keep({.members = 64, .life = 1800}), restarts_keep({.members = 64, .life = 7200}));
}

}  // namespace
}  // namespace stretto::command
