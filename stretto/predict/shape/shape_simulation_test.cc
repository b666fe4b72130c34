#include "stretto/predict/shape/shape_simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/random.h"
#include "stretto/predict/shape/rank_steps.h"

namespace stretto {
namespace {

AlgorithmShape rounds_of(const Policy& policy) {
  return {.exchange = RoundShape{.policy = policy}};
}

/// Ranks of which no two compute equally long.
StepTimes drawn_times(Random& random, int ranks, std::size_t steps) {
  std::vector<float> times;
  for (std::size_t i = 0; i < steps * static_cast<std::size_t>(ranks); ++i) {
    times.push_back(static_cast<float>(0.001 + random.uniform()));
  }
  return {ranks, std::move(times)};
}

TEST(SimulateShape, OfAQuorumOfAllIsSynchronousToTheBit) {
  Random random(1, 1);
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8, 16, 33}) {
    for (int draw = 0; draw < 5; ++draw) {
      const StepTimes times = drawn_times(random, ranks, 20);
      const ShapeOutcome sync = simulate_shape(rounds_of(Policy::full()), times, {});
      const ShapeOutcome quorum = simulate_shape(rounds_of(Policy::at_least(ranks)), times, {});
      EXPECT_EQ(quorum.seconds, sync.seconds) << ranks;
      EXPECT_EQ(quorum.rate, sync.rate) << ranks;
      EXPECT_EQ(quorum.wait_share, sync.wait_share) << ranks;
      EXPECT_EQ(quorum.rounds, sync.rounds) << ranks;
      EXPECT_EQ(quorum.fresh_share, 1) << ranks;
      EXPECT_EQ(quorum.staleness_max, 0u) << ranks;
    }
  }
}

/// Two ways to one result: the recurrence over arrays, and the moves of each rank and round as events.
TEST(SimulateShape, OfFullRoundsWithoutEventsIsWhatTheEventsSay) {
  Random random(3, 1);
  for (const int ranks : {1, 2, 3, 7, 8, 64}) {
    for (const std::uint64_t every : {1, 2, 3, 8, 50}) {
      for (const std::uint64_t steps : {0, 1, 24, 45}) {  // of 20 measured ones; 0: as many
        const StepTimes times = drawn_times(random, ranks, 20);
        std::vector<double> ends, expected_ends;
        ShapeJob job{.steps = steps, .costs = {.full_round = 0.0123}};
        job.on_round = [&](double end) { ends.push_back(end); };
        double waited = 0;
        const Applied applied = simulate_full_rounds(times, every, job, waited);
        job.on_round = [&](double end) { expected_ends.push_back(end); };
        RankSteps events(times, job, ranks);
        const Applied expected = simulate_rounds({.policy = Policy::full()}, every, events, ranks, job);
        SCOPED_TRACE(text(ranks, " ranks, every ", every, ", ", steps, " steps"));
        EXPECT_EQ(applied.last, expected.last);
        EXPECT_EQ(applied.batches, expected.batches);
        EXPECT_EQ(applied.rounds, expected.rounds);
        EXPECT_EQ(applied.fresh, expected.fresh);
        EXPECT_EQ(applied.stale + applied.staleness + applied.dropped, 0u);
        EXPECT_EQ(waited, events.waited());
        EXPECT_EQ(ends, expected_ends);
      }
    }
  }
}

/// So ranks that come before it wait for no less under a larger one.
TEST(SimulateShape, EndsARoundWhenTheLastRankOfItsQuorumComes) {
  Random random(2, 1);
  for (const int ranks : {2, 3, 4, 5, 7, 8, 16, 33}) {
    for (int draw = 0; draw < 5; ++draw) {
      const StepTimes times = drawn_times(random, ranks, 1);
      std::vector<double> come;  // nanoseconds
      for (const float time : times.step(0)) come.push_back(std::round(static_cast<double>(time) * 1e9));
      std::ranges::sort(come);
      for (int quorum = 1; quorum <= ranks; ++quorum) {
        const double end = come[static_cast<std::size_t>(quorum) - 1];
        double waited = 0;
        for (int rank = 0; rank < quorum; ++rank) waited += end - come[static_cast<std::size_t>(rank)];
        const ShapeOutcome outcome = simulate_shape(rounds_of(Policy::at_least(quorum)), times, {});
        EXPECT_EQ(outcome.wait_share, waited / (ranks * come.back())) << quorum << " of " << ranks;
        EXPECT_EQ(outcome.seconds, come.back() * 1e-9) << quorum << " of " << ranks;
      }
    }
  }
}

std::vector<double> round_ends(const Policy& policy, const StepTimes& times) {
  std::vector<double> ends;
  simulate_shape({.exchange = RoundShape{.policy = policy, .max_lag = 1000}}, times,
                 {.on_round = [&ends](double at) { ends.push_back(at); }});
  return ends;
}

/// But for the last rounds, which begin because ranks have no further batches.
TEST(SimulateShape, OfALargerQuorumEndsNoRoundEarlier) {
  constexpr std::size_t kSteps = 20;
  Random random(3, 1);
  for (const int ranks : {2, 3, 4, 5, 7, 8, 16}) {
    for (int draw = 0; draw < 10; ++draw) {
      const StepTimes times = drawn_times(random, ranks, kSteps);
      std::vector<double> before = round_ends(Policy::at_least(1), times);
      for (int quorum = 2; quorum <= ranks; ++quorum) {
        std::vector<double> ends = round_ends(Policy::at_least(quorum), times);
        ASSERT_GE(std::min(before.size(), ends.size()), kSteps);
        for (std::size_t round = 0; round + 1 < kSteps; ++round) {
          EXPECT_LE(before[round], ends[round]) << "round " << round << ", quorum " << quorum << " of " << ranks;
        }
        before = std::move(ends);
      }
    }
  }
}

/// E[max of P] of exponential times with mean 1 is 1 + 1/2 + … + 1/P, and their variance 1 + 1/4 + … + 1/P².
TEST(SimulateShape, OfSyncGrowsByTheHarmonicNumberOfItsRanksWithExponentialNoise) {
  constexpr std::size_t kSteps = 20'000;
  constexpr double kConstant = 0.020, kMean = 0.005;
  for (const int ranks : {1, 2, 8, 33}) {
    const StepTimes constant(ranks, std::vector<float>(kSteps * static_cast<std::size_t>(ranks), kConstant));
    const ShapeOutcome outcome = simulate_shape(rounds_of(Policy::full()), constant.with_noise(1, kMean), {});
    double harmonic = 0, variance = 0;
    for (int k = 1; k <= ranks; ++k) {
      harmonic += 1.0 / k;
      variance += 1.0 / (k * k);
    }
    const double sigma = kMean * std::sqrt(variance / kSteps);
    EXPECT_NEAR(ranks / outcome.rate, kConstant + kMean * harmonic, 3 * sigma) << ranks;
  }
}

}  // namespace
}  // namespace stretto
