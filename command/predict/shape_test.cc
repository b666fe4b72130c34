// Two ways to the same result: algorithms on the virtual clock, whose network takes no time, and their shapes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "command/predict/advice.h"
#include "command/predict/simulated_choice.h"
#include "command/predict/trial.h"
#include "stretto/predict/shape/shape_simulation.h"

namespace stretto::command {
namespace {

const SimulatedHosts kNoTime{.network = "latency=0s,overhead=0s,bandwidth=1e9GB/s", .model_bytes = 4096};

/// No two ranks compute equally long.
StepTimes times_of(const std::string& imbalance, int ranks, std::size_t steps, std::uint64_t seed) {
  return drawn_step_times(Imbalance::parse(imbalance, ranks), 0.010, ranks, steps, seed).with_noise(seed, 0.001);
}

struct Case {
  std::string imbalance;
  int ranks;
  std::size_t steps;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.imbalance << ", " << c.ranks << " ranks, " << c.steps << " steps";
}

class Shapes : public ::testing::TestWithParam<Case> {};

TEST_P(Shapes, AgreeWithTheAlgorithmsThemselves) {
  const auto& [imbalance, ranks, steps] = GetParam();
  std::vector<Choice> choices = settings_for(ranks, kNoTime);
  choices.push_back({"diloco:quorum", 4});
  choices.push_back({"eager-deadline:1,5ms"});
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    const StepTimes times = times_of(imbalance, ranks, steps, seed);
    for (Choice& choice : choices) {
      choice.data = "partitioned";  // of a pool's last batches ranks that are ready at the same moment get any
      SCOPED_TRACE(choice.name() + ", seed " + std::to_string(seed));
      const auto shaped = shape_of(choice, ranks);
      ASSERT_TRUE(shaped);
      const Outcome run = simulate(choice, times, kNoTime, seed);
      const ShapeOutcome shape =
          simulate_shape(shaped->shape, times, {.shared_data = shaped->shared_data, .seed = seed});
      // A patience that is learned adds up arrivals, and multiplies by which nanosecond they differ.
      const double apart = choice.algorithm.ends_with("adaptive") ? 1e-4 : 1e-5;
      EXPECT_NEAR(shape.rate / run.rate, 1, apart);
      EXPECT_NEAR(shape.wait_share, run.wait_share, apart);
      if (!std::isnan(shape.fresh_share)) {
        EXPECT_DOUBLE_EQ(shape.fresh_share, run.fresh_share);
      }
      if (!std::isnan(shape.staleness_mean)) {
        // Of ranks that end at the same moment one may be drawn: which deposits its empty round still finds is open.
        const bool drawn = choice.algorithm == "eager-majority";
        const double batches = static_cast<double>(times.steps()) * ranks;
        EXPECT_NEAR(shape.staleness_mean, run.staleness_mean, drawn ? 4 / batches : 1e-12);
        const double unseen = unseen_batches(shaped->shape, ranks, shape.staleness_mean,
                                             shape.rate * shape.seconds / static_cast<double>(shape.rounds));
        if (!drawn) {
          EXPECT_NEAR(unseen, run.unseen, 0.02 * run.unseen);
        }
        EXPECT_NEAR(static_cast<double>(shape.staleness_max), static_cast<double>(run.staleness_max), drawn ? 1 : 0);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, Shapes,
                         ::testing::Values(Case{"lognormal:mean=10ms,cv=1", 2, 20},
                                           Case{"random:ranks=1,delay=40ms", 5, 40},
                                           Case{"persistent:rank=2,factor=3", 8, 30}, Case{"cloud", 8, 60},
                                           Case{"none", 7, 25}));

/// Where messages take their time the costs are those of a round among ranks that come together.
TEST(ShapesOverANetwork, AreAsFastAsTheAlgorithms) {
  const StepTimes times = drawn_step_times(Imbalance::parse("cloud", 8), 0.100, 8, 60, 1).with_noise(1, 0.001);
  const auto compare = [&](const std::vector<Choice>& choices, const SimulatedHosts& slow) {
    const auto by_shape = try_shapes(choices, {times}, slow, 1);
    for (std::size_t i = 0; i < choices.size(); ++i) {
      ASSERT_TRUE(by_shape[i]);
      const Outcome run = simulate(choices[i], times, slow, 1);
      EXPECT_NEAR(by_shape[i]->rates.front() / run.rate, 1, 0.03) << choices[i].name();
    }
  };
  const SimulatedHosts one_bucket{.network = "latency=50us,bandwidth=1Gbit/s", .model_bytes = 1'000'000};
  compare(settings_for(8, one_bucket), one_bucket);
  const SimulatedHosts several{.network = "latency=50us,bandwidth=10Gbit/s", .model_bytes = 20'000'000};
  std::vector<Choice> servers = settings_for(8, several);
  std::erase_if(servers, [](const Choice& choice) { return !choice.name().starts_with("ps-async, servers"); });
  ASSERT_EQ(servers.size(), 2u) << "one, and four";
  compare(servers, several);
}

}  // namespace
}  // namespace stretto::command
