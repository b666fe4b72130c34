#include "command/reproduce/run_curve.h"

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

}  // namespace
}  // namespace stretto::command
