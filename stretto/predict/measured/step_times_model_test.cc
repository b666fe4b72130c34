#include "stretto/predict/measured/step_times_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace stretto {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::Pair;
using ::testing::SizeIs;

/// Quantiles of exponential times with this mean on top of a constant.
std::vector<float> exponential(double constant, double mean) {
  std::vector<float> times;
  constexpr int kCount = 1000;
  for (int i = 0; i < kCount; ++i) {
    times.push_back(static_cast<float>(constant - mean * std::log(1 - (i + 0.5) / kCount)));
  }
  return times;
}

double mean(const std::vector<float>& times) {
  return std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
}

float quantile(const std::vector<float>& ascending, double p) {
  return ascending[static_cast<std::size_t>(p * static_cast<double>(ascending.size()))];
}

TEST(StepTimesModel, FindsAgainWhatItHasDrawn) {
  const StepTimesModel known{{{.persistence = 0.9, .times = exponential(0.1, 0.02)},
                              {.persistence = 0, .times = exponential(0.2, 0.1)},
                              {.persistence = -0.5, .times = exponential(0.4, 0.01)}}};
  StepTimesModel found = StepTimesModel::fit(known.draw(3, 50'000, 1));
  ASSERT_THAT(found.ranks, SizeIs(3));
  std::ranges::sort(found.ranks, {}, [](const RankTimesModel& rank) { return mean(rank.times); });
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const RankTimesModel &drawn = known.ranks[rank], &fitted = found.ranks[rank];
    EXPECT_NEAR(fitted.persistence, drawn.persistence, 0.01) << rank;
    EXPECT_NEAR(mean(fitted.times) / mean(drawn.times), 1, 0.01) << rank;
    for (const double p : {0.05, 0.5, 0.95, 0.99}) {
      EXPECT_NEAR(quantile(fitted.times, p) / quantile(drawn.times, p), 1, 0.05) << rank << ", " << p;
    }
  }
}

TEST(StepTimesModel, GivesEachMeasuredRankItsTurn) {
  const StepTimesModel model = StepTimesModel::fit(StepTimes(3, {1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(model.ranks[0].persistence, 0);  // of equal times
  std::map<float, int> ranks;
  const StepTimes drawn = model.draw(11, 5, 1);
  for (const float time : drawn.step(0)) ++ranks[time];
  EXPECT_THAT(ranks, ElementsAre(Pair(1, Ge(3)), Pair(2, Ge(3)), Pair(3, Ge(3))));
  for (std::size_t step = 1; step < 5; ++step) {
    EXPECT_TRUE(std::ranges::equal(drawn.step(step), drawn.step(0))) << step;
  }
}

TEST(StepTimesModel, KeepsARankSlowForAsLongAsItWas) {
  // A hundred slow steps after each hundred fast ones: the step after is mostly like the one before.
  std::vector<float> times;
  for (int step = 0; step < 10'000; ++step) times.push_back(step / 100 % 2 == 0 ? 1 : 3);
  const auto changes = [](const StepTimes& times) {
    int changes = 0;
    for (std::size_t step = 1; step < times.steps(); ++step) changes += times.step(step)[0] != times.step(step - 1)[0];
    return changes;
  };
  const StepTimesModel model = StepTimesModel::fit(StepTimes(1, times));
  EXPECT_GT(model.ranks[0].persistence, 0.95);
  EXPECT_LT(changes(model.draw(1, 10'000, 1)), 1000);
  StepTimesModel forgetful = model;
  forgetful.ranks[0].persistence = 0;
  EXPECT_NEAR(changes(forgetful.draw(1, 10'000, 1)), 5000, 200);
}

TEST(StepTimesModel, RepeatsToTheBit) {
  const StepTimesModel model{{{.persistence = 0.5, .times = exponential(0.1, 0.02)}}};
  EXPECT_EQ(model.draw(4, 20, 7).to_csv(), model.draw(4, 20, 7).to_csv());
  EXPECT_NE(model.draw(4, 20, 7).to_csv(), model.draw(4, 20, 8).to_csv());
  EXPECT_THAT(StepTimesModel::fit(StepTimes(1, {5})).draw(2, 3, 1).step(2), Each(5));  // one step is enough
}

}  // namespace
}  // namespace stretto
