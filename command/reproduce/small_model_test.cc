#include "command/reproduce/small_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stretto::command {

namespace {

RunSummary run_of_three_evaluations() {
  RunSummary run;
  run.wall_seconds = 8;
  run.train_loss = 0.25;
  run.accuracy = 0.875;
  run.evaluations = {{.seconds = 1, .accuracy = 0.25, .train_loss = 2},
                     {.seconds = 3, .accuracy = 0.75, .train_loss = 1},
                     {.seconds = 4, .accuracy = 0.5, .train_loss = 0.5}};
  return run;
}

TEST(RunCurve, BetweenEvaluationsTheLossIsOnALine) {
  const RunSummary run = run_of_three_evaluations();
  EXPECT_EQ(train_loss_at(run, 1), 2);
  EXPECT_EQ(train_loss_at(run, 1.5), 1.75);
  EXPECT_EQ(train_loss_at(run, 3), 1);
  EXPECT_EQ(train_loss_at(run, 6), 0.375) << "the end of the run is an evaluation, too";
}

TEST(RunCurve, OutsideItIsTheNearestOne) {
  const RunSummary run = run_of_three_evaluations();
  EXPECT_EQ(train_loss_at(run, 0.5), 2);
  EXPECT_EQ(train_loss_at(run, 9), 0.25);
}

TEST(RunCurve, AnAccuracyIsReachedOnceThoughItFallsAgain) {
  const RunSummary run = run_of_three_evaluations();
  EXPECT_EQ(seconds_to_accuracy(run, 0.25), 1);
  EXPECT_EQ(seconds_to_accuracy(run, 0.5), 2) << "half of the way from 0.25 after 1 s to 0.75 after 3";
  EXPECT_EQ(seconds_to_accuracy(run, 0.75), 3);
  EXPECT_EQ(seconds_to_accuracy(run, 0.875), 8);
  EXPECT_EQ(seconds_to_accuracy(run, 0.9), std::nullopt);
}

using testing::HasSubstr;
using testing::Not;
using Values = std::vector<std::vector<double>>;

Judgement judged(const Claim& claim, const Values& values) {
  const Experiment finished{"", {{"wagma", {}, {}}, {"local", {}, {}}}, {"", ""}};
  return judge_claims(finished, "training loss", std::span(&claim, 1), values);
}

constexpr Claim kBelow{0, Claim::Kind::below, 1};
constexpr Claim kNotAbove{0, Claim::Kind::not_above, 1};

TEST(Claim, BelowNeedsAnIntervalThatIs) {
  const Values clear = {{1, 2, 4}, {2, 4, 8.5}}, unclear = {{1, 2, 4}, {2, 1.5, 8}};
  EXPECT_TRUE(judged(kBelow, clear).holds);
  EXPECT_THAT(judged(kBelow, clear).text, HasSubstr("wagma below local"));
  EXPECT_THAT(judged(kBelow, clear).text, Not(HasSubstr("FAIL")));
  EXPECT_FALSE(judged(kBelow, unclear).holds);
  EXPECT_THAT(judged(kBelow, unclear).text, HasSubstr("FAIL"));
}

TEST(Claim, NotAboveAllowsTheSpread) {
  EXPECT_TRUE(judged(kNotAbove, {{1, 2, 4}, {2, 1.5, 8}}).holds);
  EXPECT_TRUE(judged(kNotAbove, {{2, 1.5, 8}, {1, 2, 4}}).holds) << "worse, but within the spread";
  EXPECT_FALSE(judged(kNotAbove, {{2, 4, 8.5}, {1, 2, 4}}).holds);
  EXPECT_TRUE(judged(kNotAbove, {{1, 2, 4}, {2, 4, 8.5}}).holds);
}

TEST(Claim, SeedsArePaired) {
  // The spread over seeds is a hundredfold, that of the ratio is none.
  EXPECT_TRUE(judged(kBelow, {{1, 10, 100}, {1.5, 15, 150.1}}).holds);
}

TEST(Claim, TheRatioIsAGeometricMean) {
  EXPECT_THAT(judged(kNotAbove, {{1, 8}, {2, 4}}).text, HasSubstr("1.00")) << "of a half and two";
}

TEST(Claim, OneRunSaysNothing) {
  const Judgement judgement = judged(kBelow, {{2}, {1}});
  EXPECT_TRUE(judgement.holds);
  EXPECT_THAT(judgement.text, HasSubstr("one run says nothing"));
}

}  // namespace

}  // namespace stretto::command
