#include "command/ordering/ordering_scale.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace stretto::command {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr ScaleOptions kSmall{.most_ranks = 96, .steps = 5};

ScaleRuns predicted(const ScaleOptions& options) {
  double seconds = 0;
  return predict_scale(paper_calibration().costs, options, seconds, [](std::size_t) {});
}

/// A run whose step takes so long, of which the overhead is a part.
ScaleRun run_of(const std::string& experiment, int ranks, OrderingScheme scheme, double step, double overhead = 0) {
  ScaleRun run{experiment, ranks, 32, scheme, {}};
  run.steps.steps = {step};
  run.steps.overhead = overhead;
  run.steps.skew_correlation[0] = scheme == OrderingScheme::coordinator ? 0.9 : 0.0;
  return run;
}

/// As the paper has it on 96 ranks: the coordinator's step is `gain` longer than that of topo.
ScaleRuns as_in_the_paper(double gain) {
  ScaleRuns runs;
  for (const int ranks : {6, 24, 96}) {
    runs.add(run_of("weak", ranks, OrderingScheme::coordinator, 1 + gain, 0.001 * ranks));
    runs.add(run_of("weak", ranks, OrderingScheme::gs, 1.1));
    runs.add(run_of("weak", ranks, OrderingScheme::nbcs, 1.05));
    runs.add(run_of("weak", ranks, OrderingScheme::scp, 1.02));
    runs.add(run_of("weak", ranks, OrderingScheme::topo, 1, 0.05));
  }
  for (const double share : {0.0, 0.24, 0.48, 0.72}) {
    for (const OrderingScheme scheme : kOrderingSchemes) {
      runs.add(run_of(input_experiment(share), 96, scheme, scheme == OrderingScheme::coordinator ? 1 + share : 1));
    }
  }
  return runs;
}

constexpr ScaleChecks kChecked{.seconds = 1, .same_bits = true, .apart = 0.05};
constexpr ScaleChecks kSlow{.seconds = 31, .same_bits = true, .apart = 0.05};

std::string failed(const ScaleRuns& runs, const ScaleChecks& checks = kChecked) {
  std::string out;
  for (const Statement& statement : judge_scale(runs, kSmall, true, checks).statements) {
    if (!statement.holds) out += statement.text + "\n";
  }
  return out;
}

TEST(OrderingScale, IsPredictedForThePapersRanks) {
  const ScaleRuns runs = predicted(kSmall);
  EXPECT_THAT(runs.ranks_of("weak"), ElementsAre(6, 24, 96));
  EXPECT_THAT(runs.ranks_of("GoogLeNet"), ElementsAre(96));
  EXPECT_EQ(runs.gain("weak", 24, OrderingScheme::coordinator), 0);
  EXPECT_GT(runs.gain("weak", 96, OrderingScheme::topo), 0);
  EXPECT_EQ(runs.at("weak", 6, OrderingScheme::gs).steps.size(), 5u);
  const std::string csv = runs.csv();
  EXPECT_EQ(std::ranges::count(csv, '\n'), static_cast<long>(runs.all().size()) + 1);
  EXPECT_THAT(csv, HasSubstr("\nweak,24,nbcs,32,"));
}

TEST(OrderingScale, StrongScalingDividesTheBatch) {
  const ScaleRuns runs = predicted({.most_ranks = 384, .steps = 5, .strong = true});
  EXPECT_THAT(runs.ranks_of("strong"), ElementsAre(96, 384));
  EXPECT_EQ(runs.all().front().samples, 256);
  EXPECT_EQ(runs.all().back().samples, 64);
  EXPECT_DOUBLE_EQ(strong_job(768).compute, paper_job(768).compute);  // 32 samples a rank
  EXPECT_LT(strong_job(24'576).compute, strong_job(768).compute / 3);
}

TEST(OrderingScale, NetworksHaveTheSameInput) {
  for (const OrderedNetwork& network : ordered_networks()) {
    const OrderedJob job = network_job(network, 6);
    if (std::isnan(network.window)) {
      EXPECT_EQ(job.input, 0);
      continue;
    }
    EXPECT_EQ(job.input, paper_job(6).input);
    EXPECT_NEAR(job.input / job.compute, network.window, 1e-12) << network.name;
  }
}

TEST(OrderingScale, WhatThePaperSaysHolds) {
  EXPECT_EQ(failed(as_in_the_paper(0.2)), "");
  EXPECT_TRUE(judge_scale(as_in_the_paper(0.2), kSmall, true, kChecked).holds);
}

TEST(OrderingScale, EachStatementCanFail) {
  EXPECT_THAT(failed(as_in_the_paper(0.2), kSlow), HasSubstr("within 30 s"));
  EXPECT_THAT(failed(as_in_the_paper(0.2), {.seconds = 1, .same_bits = false, .apart = 0.05}), HasSubstr("same bits"));
  EXPECT_THAT(failed(as_in_the_paper(0.2), {.seconds = 1, .same_bits = true, .apart = 0.11}),
              HasSubstr("thread by thread"));

  const auto with = [](std::string_view experiment, int ranks, OrderingScheme scheme, auto change) {
    const ScaleRuns before = as_in_the_paper(0.2);
    ScaleRuns runs;
    for (ScaleRun run : before.all()) {
      if (run.experiment == experiment && run.ranks == ranks && run.scheme == scheme) change(run.steps);
      runs.add(std::move(run));
    }
    return failed(runs);
  };
  const auto takes = [](double step) { return [step](OrderedSteps& steps) { steps.steps = {step}; }; };
  EXPECT_THAT(with("weak", 96, OrderingScheme::scp, takes(0.98)), HasSubstr("gs < nbcs < scp"));
  EXPECT_THAT(with("weak", 96, OrderingScheme::gs, takes(1.04)), HasSubstr("gs < nbcs < scp"));
  EXPECT_THAT(with("weak", 24, OrderingScheme::coordinator, [](OrderedSteps& s) { s.overhead = 0.2; }),
              HasSubstr("overhead of the coordinator rises"));
  EXPECT_THAT(with("weak", 6, OrderingScheme::topo, [](OrderedSteps& s) { s.overhead = 0.081; }),
              HasSubstr("overhead of topo"));
  EXPECT_THAT(with("weak", 96, OrderingScheme::topo, [](OrderedSteps& s) { s.overhead = 0.06; }),
              HasSubstr("overhead of topo"));
  EXPECT_THAT(with("input 0.48", 96, OrderingScheme::topo, takes(1.3)), HasSubstr("the more input"));
  EXPECT_THAT(with("weak", 96, OrderingScheme::gs, [](OrderedSteps& s) { s.skew_correlation[0] = -0.2; }),
              HasSubstr("autocorrelation"));
}

TEST(OrderingScale, WhatNoInputGainsIsJudgedOnThePapersRanksAlone) {
  const auto judged = [](int ranks) {
    ScaleRuns runs = as_in_the_paper(0.2);
    for (const OrderingScheme scheme : kOrderingSchemes) {
      if (ranks == kPaperRanks) runs.add(run_of("weak", ranks, scheme, 1));
      for (const double share : {0.0, 0.24, 0.48, 0.72}) {
        runs.add(run_of(input_experiment(share), kPaperRanks, scheme, scheme == OrderingScheme::nbcs ? 1.05 : 1));
      }
    }
    return judge_scale(runs, {.most_ranks = ranks, .steps = 5}, true, kChecked);
  };
  EXPECT_THAT(judged(96).text, HasSubstr("without input pipeline on 96 ranks (asked of 24576 alone): gs +0.0 %, nbcs"));
  EXPECT_TRUE(judged(96).holds);
  EXPECT_THAT(judged(kPaperRanks).text, HasSubstr("without input pipeline nbcs gains or loses at most 4 %"));
}

TEST(OrderingScale, PredictionsAreChecked) {
  const OrderingCosts costs = paper_calibration().costs;
  EXPECT_TRUE(repeats_to_the_bit(costs, 3));
  const double apart = largest_difference(costs, kSmall);
  EXPECT_GT(apart, 0);
  EXPECT_LT(apart, 1);
}

TEST(OrderingScale, NothingIsRequiredOfOtherCosts) {
  const Judgement judgement = judge_scale(as_in_the_paper(0.2), kSmall, false, kSlow);
  EXPECT_TRUE(judgement.holds);
  EXPECT_THAT(judgement.text, HasSubstr("nothing is required"));
  EXPECT_FALSE(judge_scale(as_in_the_paper(0.2), kSmall, true, kSlow).holds);
}

}  // namespace
}  // namespace stretto::command
