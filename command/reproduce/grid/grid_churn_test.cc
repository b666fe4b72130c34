#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command/reproduce/experiments.h"
#include "command/train/training_options.h"

namespace stretto::command {
namespace {

using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

std::vector<Experiment> churned_grids() {
  return grid_churn_experiments({.ranks = 256, .steps = 1800, .pace = 1s});
}

/// Three runs of each group, which have lost such shares of the members' time; the grid's a little more or less.
Experiment with_lost(Experiment experiment, double eager, double grid, double spread = 1e-4) {
  const TrainOptions& options = experiment.groups[0].options;
  const Churn churn = parse_churn(options.churn, options.ranks);
  for (std::uint64_t seed : {1, 2, 3}) {
    for (const bool is_grid : {false, true}) {
      RunSummary run;
      run.seed = seed;
      run.wall_seconds = 1000;
      const double off = is_grid ? spread * (static_cast<double>(seed) - 2) : 0;
      const double kept = 1 - (is_grid ? grid : eager) + off;
      const double batches = kept * members_time(churn, seed, options.ranks, run.wall_seconds);
      run.deposits.applied = static_cast<std::uint64_t>(batches);
      run.throughput = batches / run.wall_seconds;
      run.members.emplace().worlds.resize(3);
      experiment.groups[is_grid ? 1 : 0].runs.push_back(run);
    }
  }
  return experiment;
}

TEST(GridChurn, EveryRowIsARunThatCanBe) {
  const auto experiments = churned_grids();
  ASSERT_EQ(experiments.size(), 3u);
  for (const Experiment& experiment : experiments) {
    ASSERT_EQ(experiment.groups.size(), experiment.expect.size());
    for (const RunGroup& group : experiment.groups) {
      EXPECT_NO_THROW(check_training(group.options)) << experiment.title << ", " << group.label;
      EXPECT_EQ(group.options.steps * static_cast<std::uint64_t>(group.options.ranks), 1800u * 64);
      EXPECT_THAT(group.options.churn, HasSubstr("life=7200s"));
    }
  }
  const auto more = grid_churn_experiments({.ranks = 100, .steps = 1800, .pace = 1s});
  ASSERT_EQ(more.size(), 3u) << "16, 64, 100";
  EXPECT_EQ(more.back().groups.front().options.ranks, 100);
  const auto most = grid_churn_experiments({.ranks = 1000, .steps = 1800, .pace = 1s});
  ASSERT_EQ(most.size(), 4u);
  EXPECT_EQ(most.back().groups.front().options.steps, 450u) << "as many as of 256";
  EXPECT_NO_THROW(check_training(most.back().groups.back().options));
  EXPECT_EQ(grid_churn_experiments({.ranks = 16, .steps = 300, .pace = 1s}).size(), 1u) << "the short form";
}

TEST(GridChurn, CountsTheTimeOfMembersThatAreThere) {
  const Churn stay = parse_churn("loss=0@1s", 4);
  EXPECT_DOUBLE_EQ(members_time(stay, 1, 4, 100), 400) << "nothing is drawn";
  Churn churn = parse_churn("life=100s,back=never", 1);
  const double first = seconds(*churn.end_of(7, 0).after), second = seconds(*churn.end_of(7, 1).after);
  EXPECT_DOUBLE_EQ(members_time(churn, 7, 1, 1e6), first);
  EXPECT_DOUBLE_EQ(members_time(churn, 7, 1, first / 2), first / 2);
  EXPECT_DOUBLE_EQ(members_time(churn, 7, 2, 1e6), first + second);
  churn.back = 10s;
  EXPECT_DOUBLE_EQ(members_time(churn, 7, 1, first + 10 + second / 2), first + second / 2);
}

TEST(GridChurn, FailsWhereTheGridPaysTooSoonOrTooLate) {
  const auto experiments = churned_grids();
  EXPECT_TRUE(judge_grid_churn(with_lost(experiments[0], 0.003, 0.008)).holds);
  EXPECT_TRUE(judge_grid_churn(with_lost(experiments[0], 0.003, 0.003)).holds) << "within the spread";
  EXPECT_FALSE(judge_grid_churn(with_lost(experiments[0], 0.004, 0.001)).holds) << "it pays with 16";
  EXPECT_TRUE(judge_grid_churn(with_lost(experiments[1], 0.01, 0.02)).holds) << "between them nothing is required";
  EXPECT_TRUE(judge_grid_churn(with_lost(experiments[1], 0.01, 0.005)).holds);
  EXPECT_TRUE(judge_grid_churn(with_lost(experiments[2], 0.03, 0.01)).holds);
  EXPECT_FALSE(judge_grid_churn(with_lost(experiments[2], 0.03, 0.04)).holds) << "it does not pay with 256";
  EXPECT_FALSE(judge_grid_churn(with_lost(experiments[2], 0.03, 0.029, 0.02)).holds) << "nobody knows";
}

TEST(GridChurn, FailsWhereAChangeOfAllTakesMoreThanAStep) {
  const Judgement judgement = judge_grid_churn(with_lost(churned_grids()[2], 0.08, 0.01));
  EXPECT_FALSE(judgement.holds) << "256 members of two hours lose 7.1 % at most";
  EXPECT_THAT(judgement.text, HasSubstr("FAIL"));
}

TEST(GridChurn, SaysFromHowManyMembersOnItPays) {
  const auto experiments = churned_grids();
  const auto says = [&](double few, double some, double many) {
    const std::vector<Experiment> finished{with_lost(experiments[0], 0.01, few), with_lost(experiments[1], 0.01, some),
                                           with_lost(experiments[2], 0.01, many)};
    return judge_where_grid_pays(finished).text;
  };
  EXPECT_THAT(says(0.02, 0.02, 0.001), HasSubstr("from 256 members"));
  EXPECT_THAT(says(0.02, 0.001, 0.001), HasSubstr("from 64 members"));
  EXPECT_THAT(says(0.001, 0.02, 0.001), HasSubstr("from 256 members")) << "and with all that are more";
  EXPECT_THAT(says(0.02, 0.02, 0.02), HasSubstr("does not pay"));
  // Ratios of 1 + 0.02, 1 + 0.01 and 1 − 0.01, about: half way between 64 and 256.
  EXPECT_THAT(says(0.03, 0.02, 0.0001), HasSubstr("as fast with 161 members (159 to 164)"));
  EXPECT_THAT(says(0.02, 0.02, 0.02), Not(HasSubstr("as fast")));
}

}  // namespace
}  // namespace stretto::command
