#include "stretto/predict/fine/fine_prediction.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "stretto/base/random.h"
#include "stretto/predict/coarse/coarse_prediction.h"

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

/// Up to three classes of up to three workers, whose longest times are at most three times their shortest.
TrainingJob drawn_even_job(Random& random) {
  const auto some = [&] { return 0.5 + random.uniform(); };
  TrainingJob job{.bandwidth = some()};
  job.overlap = false;
  job.steps = 400;
  const double bytes = some();
  for (auto classes = random.between(1, 3); classes > 0; --classes) {
    const Layer layer{.name = "layer", .bytes = bytes, .forward = some(), .backward = some(), .update = some()};
    job.classes.push_back({.count = static_cast<int>(random.between(1, 3)),
                           .batch = 1,
                           .forward = layer.forward,
                           .backward = layer.backward,
                           .update = layer.update,
                           .steps = {{layer}}});
  }
  job.model_bytes = bytes;
  return job;
}

/// Each worker goes through all of its step, and each step through the link.
double most_steps_per_s(const TrainingJob& job) {
  const double transfer = job.model_bytes / job.bandwidth;
  double most = 0;
  for (const WorkerClass& workers : job.classes) {
    most += workers.count / (2 * transfer + workers.forward + workers.backward + workers.update);
  }
  return std::min(most, 1 / transfer);
}

TEST(Predictions, ExceedNeitherTheirWorkersNorTheirLink) {
  Random random(1, 1);
  for (int draw = 0; draw < 100; ++draw) {
    TrainingJob job = drawn_even_job(random);
    const double most = most_steps_per_s(job);
    const AsynchronousRate coarse = predict_coarse(job).basic;
    EXPECT_LE(coarse.equal_shares, most * (1 + 1e-12)) << draw;
    EXPECT_LE(coarse.in_order, most * (1 + 1e-12)) << draw;
    for (const LinkSharing sharing : {LinkSharing::equal_shares, LinkSharing::in_order}) {
      job.link = sharing;
      // Of each worker the steps count that lie wholly in the time measured: two of its 120 and more may be cut.
      EXPECT_LE(predict_fine(job, {}).steps_per_s, most * (1 + 2.0 / 120)) << draw;
    }
  }
}

TEST(Predictions, OfOneWorkerWithoutOverlapAreTheSame) {
  Random random(2, 1);
  for (int draw = 0; draw < 50; ++draw) {
    TrainingJob job = drawn_even_job(random);
    job.classes.resize(1);
    job.classes.front().count = 1;
    const CoarsePrediction coarse = predict_coarse(job);
    const double rate = most_steps_per_s(job);  // one step after the other
    EXPECT_NEAR(coarse.basic.equal_shares / rate, 1, 1e-9) << draw;
    EXPECT_NEAR(coarse.basic.in_order / rate, 1, 1e-9) << draw;
    for (const LinkSharing sharing : {LinkSharing::equal_shares, LinkSharing::in_order}) {
      job.link = sharing;
      job.mode = Coordination::asynchronous;
      EXPECT_NEAR(predict_fine(job, {}).steps_per_s / rate, 1, 1e-9) << draw;
      job.mode = Coordination::synchronous;
      EXPECT_NEAR(predict_fine(job, {}).steps_per_s * coarse.synchronous.mean, 1, 1e-9) << draw;
    }
    job.mode = Coordination::allreduce;
    EXPECT_NEAR(predict_fine(job, {}).steps_per_s * (coarse.synchronous.ring + job.classes.front().update), 1, 1e-9);
  }
}

}  // namespace
}  // namespace stretto
