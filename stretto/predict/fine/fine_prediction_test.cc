#include "stretto/predict/fine/fine_prediction.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

/// m = 1 s, F = B = 1 s, no server time; three workers.
TrainingJob three_workers(Coordination mode) {
  TrainingJob job;
  job.bandwidth = 1;
  job.mode = mode;
  job.steps = 20;
  job.classes = {{.count = 3, .batch = 4, .steps = {{{.name = "layer", .bytes = 1, .forward = 1, .backward = 1}}}}};
  return job;
}

TEST(PredictFine, OfASynchronousJobIsTheMeanOfTheThroughputs) {
  TrainingJob job = three_workers(Coordination::synchronous);
  const FinePrediction both = predict_fine(job, {});
  const double equal = 3 / (2 * 3 + 2.0);       // equation 7
  const double in_order = 3 / ((3 + 1) + 2.0);  // equation 8
  EXPECT_NEAR(both.steps_per_s, (equal + in_order) / 2, 1e-12);
  EXPECT_NEAR(both.examples_per_s, 4 * both.steps_per_s, 1e-12);

  job.link = LinkSharing::in_order;
  const FinePrediction one = predict_fine(job, {});
  EXPECT_NEAR(one.steps_per_s, in_order, 1e-12);
  EXPECT_FALSE(one.equal_shares);
  EXPECT_EQ(one.shown().steps_per_s, one.steps_per_s);
}

TEST(PredictFine, OfOtherJobsIsOneSimulationWithEqualShares) {
  for (const Coordination mode : {Coordination::asynchronous, Coordination::allreduce}) {
    const FinePrediction prediction = predict_fine(three_workers(mode), {});
    EXPECT_TRUE(prediction.equal_shares);
    EXPECT_FALSE(prediction.in_order);
  }
}

}  // namespace
}  // namespace stretto
