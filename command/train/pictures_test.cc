#include <gtest/gtest.h>

#include "command/train/report.h"

namespace stretto::command {
namespace {

RunSummary run_of(std::uint64_t seed) {
  RunSummary run;
  run.seed = seed;
  run.ranks = 4;
  run.wall_seconds = 2;
  run.throughput = 20;
  run.ideal_seconds = 1.6;
  run.deposits.applied = 40;
  run.curve = {{0.5, 10, 3}, {1, 20, 2.5}};
  return run;
}

TEST(CurvesCsv, HasALineForEachPieceOfTheCurveAndEachEvaluation) {
  RunSummary run = run_of(7);
  run.evaluations = {{.seconds = 1.25, .batches = 30, .of = "average", .loss = 2.25, .accuracy = 0.5}};
  run.loss = 2;
  run.accuracy = 0.75;
  run.final_batches = 40;
  const RunGroup group{"sync", {}, {run}};
  EXPECT_EQ(curves_csv({&group, 1}),
            "algorithm,seed,batches,seconds,loss,test_loss,accuracy\n"
            "sync,7,10,0.5,3,,\n"
            "sync,7,20,1,2.5,,\n"
            "sync,7,30,1.25,,2.25,0.5\n"
            "sync,7,40,2,,2,0.75\n");
}

TEST(CurvesCsv, DoesNotRepeatAnEvaluationAsTheEnd) {
  RunSummary run = run_of(1);
  run.curve.clear();
  run.evaluations = {{.seconds = 2, .batches = 40, .of = "average", .loss = 2, .accuracy = std::nullopt}};
  run.loss = 2;
  run.final_batches = 40;
  const RunGroup group{"sync", {}, {run}};
  EXPECT_EQ(curves_csv({&group, 1}), "algorithm,seed,batches,seconds,loss,test_loss,accuracy\nsync,1,40,2,,2,\n");
}

TEST(CurvesCsv, QuotesWhatHasCommasAndQuotes) {
  RunSummary run = run_of(1);
  run.curve.resize(1);
  const RunGroup group{"the \"fast\" one, H = 1", {}, {run}};
  EXPECT_EQ(curves_csv({&group, 1}),
            "algorithm,seed,batches,seconds,loss,test_loss,accuracy\n\"the \"\"fast\"\" one, H = 1\",1,10,0.5,3,,\n");
}

TEST(ThroughputCsv, HasTheIdealBesideEachRun) {
  RunGroup group{"wagma", {}, {run_of(1), run_of(2)}};
  group.options.imbalance = "random:ranks=2,delay=320ms";
  EXPECT_EQ(throughput_csv({&group, 1}),
            "algorithm,imbalance,ranks,seed,batches_per_second,no_communication\n"
            "wagma,\"random:ranks=2,delay=320ms\",4,1,20,25\n"
            "wagma,\"random:ranks=2,delay=320ms\",4,2,20,25\n");
}

}  // namespace
}  // namespace stretto::command
