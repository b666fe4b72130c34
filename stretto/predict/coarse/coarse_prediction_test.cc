#include "stretto/predict/coarse/coarse_prediction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "stretto/base/random.h"
#include "stretto/predict/coarse/testing/expect_near.h"

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kExact = 1e-9;  // relative

/// m = 1 s.
TrainingJob job_of(std::vector<WorkerClass> classes) {
  return {.model_bytes = 1e8, .bandwidth = 1e8, .classes = std::move(classes)};
}

WorkerClass workers(int count, double forward, double backward, double update, double batch = 1) {
  return {.count = count, .batch = batch, .forward = forward, .backward = backward, .update = update};
}

TEST(CoarsePrediction, SharesLinksThatAreUsedMoreThanTheThreshold) {
  // W = m = s = 1, as worked out in closed_network_test.cc.
  const CoarsePrediction two = predict_coarse(job_of({workers(2, 0.5, 0.5, 1, 32)}));
  expect_near(two.basic.in_order, 4.0 / 9);
  expect_near(two.basic.equal_shares, 8.0 / 19);
  expect_near(two.basic.utilization, 4.0 / 9);
  EXPECT_EQ(two.basic.chosen, LinkSharing::in_order);
  EXPECT_EQ(two.basic.steps_per_second, two.basic.in_order);
  expect_near(two.basic.examples_per_second, 32 * 4.0 / 9);

  const CoarsePrediction three = predict_coarse(job_of({workers(3, 0.5, 0.5, 1)}));
  expect_near(three.basic.in_order, 27.0 / 46);
  expect_near(three.basic.utilization, 27.0 / 46);
  EXPECT_EQ(three.basic.chosen, LinkSharing::equal_shares);
  expect_near(three.basic.steps_per_second, 57.0 / 106);

  TrainingJob job = job_of({workers(3, 0.5, 0.5, 1)});
  job.rho_threshold = 0.6;
  EXPECT_EQ(predict_coarse(job).basic.chosen, LinkSharing::in_order);
  expect_near(predict_coarse(job).basic.steps_per_second, 27.0 / 46);
}

TEST(CoarsePrediction, HidesTransfersBehindComputation) {
  // Without overlap T = 15/14 in order, at ρ = 0.28; W becomes 2 − 15/14 + 3 − 15/14 = 20/7.
  const CoarsePrediction two = predict_coarse(job_of({workers(2, 2, 3, 0)}));
  expect_near(two.basic.in_order, 0.28);
  expect_near(two.overlap.in_order, 476.0 / 1205);
  EXPECT_EQ(two.overlap.steps_per_second, two.overlap.in_order);
  // A pass that is shorter than the transfer is hidden as a whole.
  const CoarsePrediction hidden = predict_coarse(job_of({workers(2, 0.5, 0.5, 0)}));
  expect_near(hidden.overlap.in_order, 2 / (2 * 1.25));
}

TEST(CoarsePrediction, OneWorkerTakesTheLongerOfPassAndTransfer) {
  Random random(1);
  for (int i = 0; i < 200; ++i) {
    const double forward = 3 * random.uniform(), backward = 3 * random.uniform(), update = random.uniform();
    TrainingJob job = job_of({workers(1, forward, backward, update)});
    job.servers = static_cast<int>(random.between(1, 4));
    job.rho_threshold = random.uniform();
    const CoarsePrediction one = predict_coarse(job);
    expect_near(1 / one.basic.in_order, 2 + forward + backward + update);
    expect_near(1 / one.basic.equal_shares, 2 + forward + backward + update);
    expect_near(1 / one.overlap.steps_per_second, std::max(forward, 1.0) + std::max(backward, 1.0) + update);
    // Alone, it makes no difference whether a worker waits for the others.
    expect_near(one.synchronous.equal_shares, 2 + forward + backward + update);
    expect_near(one.synchronous.in_order, 2 + forward + backward + update);
    expect_near(one.synchronous.mean, 2 + forward + backward + update);
    expect_near(one.synchronous.overlap, 1 / one.overlap.steps_per_second);
    expect_near(one.synchronous.ring, forward + backward);
  }
}

TEST(CoarsePrediction, SynchronousStepsFollowTheirEquations) {
  // K = 4, m = 1, F = 3, B = 2, s = 0.5.
  const CoarsePrediction four = predict_coarse(job_of({workers(4, 3, 2, 0.5, 8)}));
  expect_near(four.synchronous.equal_shares, 2 * 4 + 3 + 2 + 0.5);
  expect_near(four.synchronous.in_order, (4 + 1) + 3 + 2 + 0.5);
  expect_near(four.synchronous.mean, 4 + 3 + 2 + (4 + 1) / 2.0 + 0.5);
  expect_near(four.synchronous.overlap, 4 + 2.5 + 0.5);  // Km > F, (K+1)m/2 > B
  expect_near(four.synchronous.ring, 3 + 2 + 2 * 3 / 4.0);
  expect_near(four.examples_in_step, 32);
}

TEST(CoarsePrediction, SynchronousStepsWaitForTheSlowest) {
  const CoarsePrediction mixed = predict_coarse(job_of({workers(2, 3, 1, 0), workers(1, 1, 2, 0.25)}));
  expect_near(mixed.synchronous.equal_shares, 2 * 3 + 3 + 2 + 0.25);
  expect_near(mixed.synchronous.ring, 3 + 2 + 2 * 2 / 3.0);
  EXPECT_THAT(mixed.notes, ElementsAre(HasSubstr("workers are unequal")));
  EXPECT_THAT(predict_coarse(job_of({workers(2, 3, 1, 0)})).notes, IsEmpty());
}

TEST(CoarsePrediction, ServersShareTheirLoad) {
  TrainingJob job = job_of({workers(4, 3, 2, 0.5)});
  CoarsePrediction before = predict_coarse(job);
  for (job.servers = 2; job.servers <= 8; ++job.servers) {
    const CoarsePrediction more = predict_coarse(job);
    EXPECT_GT(more.basic.in_order, before.basic.in_order);
    EXPECT_GT(more.basic.equal_shares, before.basic.equal_shares);
    EXPECT_LE(more.synchronous.equal_shares, before.synchronous.equal_shares);
    EXPECT_EQ(more.synchronous.ring, before.synchronous.ring) << "there is no server";
    before = more;
  }
  expect_near(before.synchronous.equal_shares, 2 * 1 + 3 + 2 + 0.5);  // a worker's own link remains
}

TEST(CoarsePrediction, EqualClassesAreOneClass) {
  const CoarsePrediction one = predict_coarse(job_of({workers(5, 1, 2, 0.5, 16)}));
  const CoarsePrediction several =
      predict_coarse(job_of({workers(2, 1, 2, 0.5, 10), workers(2, 1, 2, 0.5, 20), workers(1, 1, 2, 0.5, 20)}));
  EXPECT_EQ(one.basic.in_order, several.basic.in_order);
  EXPECT_EQ(one.overlap.equal_shares, several.overlap.equal_shares);
  expect_near(several.basic.examples_per_second, one.basic.examples_per_second);
  EXPECT_EQ(several.workers, 5);
}

TEST(CoarsePrediction, CountsTheExamplesOfEachClassAtItsRate) {
  // As worked out in closed_network_test.cc: 5/17 and 3/17 steps per second.
  TrainingJob job = job_of({workers(1, 0, 1, 0, 32), workers(1, 2, 1, 0, 16)});
  job.rho_threshold = 0;
  const CoarsePrediction mixed = predict_coarse(job);
  EXPECT_EQ(mixed.basic.chosen, LinkSharing::equal_shares);
  expect_near(mixed.basic.examples_per_second, (32 * 5 + 16 * 3) / 17.0);
}

TEST(CoarsePrediction, ThresholdOneNeverShares) {
  for (const int count : {1, 10, 100, 1000}) {
    TrainingJob job = job_of({workers(count, 0.01, 0.02, 0.001)});
    job.rho_threshold = 1;
    EXPECT_EQ(predict_coarse(job).basic.chosen, LinkSharing::in_order) << count;
  }
}

TEST(CoarsePrediction, OverlapNeverCostsAnything) {
  Random random(2);
  for (int i = 0; i < 500; ++i) {
    TrainingJob job = job_of({workers(static_cast<int>(random.between(1, 20)), 3 * random.uniform(),
                                      3 * random.uniform(), random.uniform())});
    for (const double threshold : {0.0, 1.0}) {  // one discipline throughout
      job.rho_threshold = threshold;
      const CoarsePrediction prediction = predict_coarse(job);
      EXPECT_GE(prediction.overlap.steps_per_second, prediction.basic.steps_per_second * (1 - kExact));
    }
    const SynchronousStep step = predict_coarse(job).synchronous;
    EXPECT_LE(step.overlap, step.mean);
    EXPECT_GE(step.overlap, job.classes[0].forward + job.classes[0].backward) << "the worker alone";
  }
}

TEST(CoarsePrediction, ABaselineThatKnowsNoQueue) {
  const CoarsePrediction four = predict_coarse(job_of({workers(4, 3, 2, 0.5)}));
  expect_near(four.cynthia.asynchronous, 4 / (3 + 2 + 2.0));
  expect_near(four.cynthia.synchronous, 8);
}

TEST(CoarsePrediction, SaysWhatItLeavesOutOrApproximates) {
  TrainingJob job = job_of({workers(1, 1, 1, 0)});
  job.notes = {"of the job"};
  job.flow_cap = 1e9;
  EXPECT_THAT(predict_coarse(job).notes, ElementsAre("of the job", HasSubstr("flow_cap")));
  job = job_of({workers(3000, 1, 1, 0.001), workers(3000, 1, 2, 0.001)});
  job.bandwidth = 1e12;
  const CoarsePrediction many = predict_coarse(job);
  EXPECT_FALSE(many.exact);
  EXPECT_THAT(many.notes, ElementsAre(HasSubstr("unequal"), HasSubstr("Bard–Schweitzer")));
}

TrainingJob job(double model_bytes, bool overlap) {
  return {.model_bytes = model_bytes,
          .bandwidth = 1e9,
          .classes = {{.batch = 32, .forward = 0.03, .backward = 0.06, .update = 0.001}},
          .overlap = overlap};
}

/// One to seven workers, as the model predicts them with this threshold, each off by a factor.
void measure(TrainingJob& job, double rho_threshold, double off = 1) {
  for (int count = 1; count <= 7; ++count) {
    TrainingJob run = job;
    run.rho_threshold = rho_threshold;
    run.classes[0].count = count;
    const CoarsePrediction prediction = predict_coarse(run);
    const AsynchronousRate& rate = job.overlap ? prediction.overlap : prediction.basic;
    job.measured.push_back({{count}, rate.steps_per_second * off});
  }
}

TEST(ThresholdFit, FindsTheThresholdThatRunsWereMadeWith) {
  for (const bool overlap : {false, true}) {
    for (const double rho_threshold : {0.3, 0.5, 0.6, 0.9}) {
      std::vector<TrainingJob> jobs;
      for (const double model_bytes : {4e6, 7e6, 1.2e7, 2e7, 4e7, 8e7}) {  // utilizations of all sizes
        jobs.push_back(job(model_bytes, overlap));
        measure(jobs.back(), rho_threshold);
      }
      const ThresholdFit fit = fit_threshold(jobs);
      EXPECT_NEAR(fit.rho_threshold, rho_threshold, 1e-9) << overlap;
      EXPECT_TRUE(fit.decided);
      ASSERT_EQ(fit.candidates.size(), 10U);
      EXPECT_LT(fit.candidates[static_cast<std::size_t>(std::lround(rho_threshold * 10)) - 1].mean_error, 1e-12);
      EXPECT_EQ(fit.runs.size(), 42U);
    }
  }
}

TEST(ThresholdFit, SaysHowFarEachCandidateIsOff) {
  std::vector<TrainingJob> jobs{job(2e7, false)};
  measure(jobs[0], 0.5, 0.8);
  const ThresholdFit fit = fit_threshold(jobs);
  EXPECT_NEAR(fit.candidates[4].mean_error, 0.25, 1e-12) << "what was measured is a fifth below";
  EXPECT_NEAR(fit.candidates[4].max_error, 0.25, 1e-12);
  EXPECT_EQ(fit.candidates[0].in_order, 0);
  EXPECT_EQ(fit.candidates[9].in_order, 7);
  for (const ThresholdFit::Run& run : fit.runs) {
    EXPECT_NEAR(run.error, run.predicted.steps_per_second / jobs[0].measured[run.index].steps_per_second - 1, 1e-12);
  }
}

TEST(ThresholdFit, TakesTheMiddleWhereRunsDoNotTellCandidatesApart) {
  std::vector<TrainingJob> jobs{job(1e6, false)};  // links are idle
  measure(jobs[0], 1);
  jobs[0].measured.resize(2);
  const ThresholdFit fit = fit_threshold(jobs);
  EXPECT_FALSE(fit.decided);
  EXPECT_EQ(fit.rho_threshold, 0.5);
}

TEST(ThresholdFit, LeavesOutClassesWithoutWorkers) {
  std::vector<TrainingJob> jobs{job(2e7, false)};
  jobs[0].classes.push_back({.batch = 32, .forward = 5, .backward = 5, .update = 5});
  jobs[0].measured = {{{3, 0}, 1.0}};
  TrainingJob alone = job(2e7, false);
  alone.classes[0].count = 3;
  EXPECT_EQ(fit_threshold(jobs).runs[0].predicted.in_order, predict_coarse(alone).basic.in_order);
}

}  // namespace

}  // namespace stretto
