#include "stretto/predict/coarse/threshold_fit.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

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
      EXPECT_LT(fit.candidates[static_cast<std::size_t>(rho_threshold * 10 + 0.5) - 1].mean_error, 1e-12);
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
