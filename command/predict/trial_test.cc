#include "command/predict/trial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command/predict/advice.h"
#include "command/predict/step_times_argument.h"
#include "command/predict/testing/fast_hosts.h"
#include "stretto/base/error.h"

namespace stretto::command {
namespace {

using ::testing::SizeIs;
using ::testing::ThrowsMessage;

std::vector<StepTimes> replicas_of(int ranks, std::size_t steps, std::uint64_t count) {
  std::vector<StepTimes> replicas;
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    replicas.push_back(
        drawn_step_times(Imbalance::parse("lognormal:mean=10ms,cv=1", ranks), 0.010, ranks, steps, seed));
  }
  return replicas;
}

TEST(Trial, IsTheSameFromAnyNumberOfProcesses) {
  const std::vector<Choice> choices = {{"sync"}, {"eager-quorum:2"}, {"local", 4}};
  const auto replicas = replicas_of(3, 20, 4);
  const auto alone = try_out(choices, replicas, kFastHosts, 7, 1);
  const auto together = try_out(choices, replicas, kFastHosts, 7, 5);
  ASSERT_THAT(alone, SizeIs(3));
  ASSERT_THAT(together, SizeIs(3));
  for (std::size_t i = 0; i < choices.size(); ++i) {
    EXPECT_EQ(together[i].choice.name(), choices[i].name());
    EXPECT_THAT(together[i].rates, SizeIs(4));
    EXPECT_EQ(together[i].rates, alone[i].rates);
    EXPECT_EQ(together[i].steps, alone[i].steps);
    EXPECT_EQ(together[i].fresh_share, alone[i].fresh_share);
  }
}

/// Their rate is a matter of the period, not of where in it a run ends.
TEST(Trial, OfWholePeriodsIsAsFastOverAnyNumberOfSteps) {
  const SimulatedHosts slow{.network = "latency=50us,bandwidth=100Mbit/s", .model_bytes = 10'000'000};
  const auto rates = [&](std::size_t steps, const std::vector<Choice>& choices) {
    const std::vector<StepTimes> equal = {drawn_step_times(Imbalance::parse("none", 4), 0.100, 4, steps, 1)};
    std::vector<double> all;
    for (const Trial& trial : try_out(choices, equal, slow, 1)) all.push_back(trial.rates.front());
    for (const auto& trial : try_shapes(choices, equal, slow, 1)) all.push_back(trial->rates.front());
    return all;
  };
  const std::vector<Choice> choices = {{"local", 32}, {"local", 16}, {"wagma:2", 0, {{"tau", "40"}}}, {"sync"}};
  const std::vector<double> whole = rates(160, choices), part = rates(100, choices);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_NEAR(part[i] / whole[i], 1, 0.01) << choices[i % choices.size()].name();
  }
}

/// Rank 1 is slow in every second step, whichever batch it computes then: an ideal that deals out batches in order
/// gives it the last ones, and is no bound.
TEST(Trial, NeverExceedsTheIdeal) {
  std::vector<float> seconds;
  for (int step = 0; step < 6; ++step) {
    seconds.push_back(0.004F);
    seconds.push_back(step % 2 == 0 ? 0.004F : 0.104F);
  }
  const std::vector<StepTimes> times = {StepTimes(2, std::move(seconds)).with_noise(1, 1e-4)};
  const SimulatedHosts slow{.network = "latency=1us,bandwidth=10GB/s", .model_bytes = 20'000'000};
  for (const SimulatedHosts& hosts : {kFastHosts, slow}) {
    std::vector<Choice> choices = settings_for(2, hosts);
    for (const char* other : {"ps-sync", "d-psgd", "ad-psgd", "easgd-async"}) choices.push_back({other});
    for (const Trial& trial : try_out(choices, times, hosts, 1)) {
      EXPECT_LE(trial.of_ideal, 1 + 1e-6) << trial.choice.name();
    }
    for (const auto& trial : try_shapes(choices, times, hosts, 1)) {
      if (!trial) continue;
      EXPECT_LE(trial->of_ideal, 1 + 1e-6) << trial->choice.name();
    }
  }
}

TEST(Trial, GoesOnToTheEndOfAPeriodThatIsNotTooLong) {
  EXPECT_EQ(whole_periods({"local", 32}, 4, 100), 128u);
  EXPECT_EQ(whole_periods({"local", 32}, 4, 96), 96u);
  EXPECT_EQ(whole_periods({"easgd"}, 4, 101), 110u);
  EXPECT_EQ(whole_periods({"wagma:2", 0, {{"tau", "40"}}}, 4, 100), 119u);
  EXPECT_EQ(whole_periods({"wagma:2", 0, {{"tau", "1"}}}, 4, 100), 100u);
  EXPECT_EQ(whole_periods({"local", 1'000'000}, 4, 100), 100u);
  for (const char* other : {"sync", "eager-solo", "ps-async", "ad-psgd", "d-psgd"}) {
    EXPECT_EQ(whole_periods({other}, 4, 101), 101u) << other;
  }
}

TEST(Trial, OfAChoiceThatDoesNotFitSaysWhy) {
  EXPECT_THAT(
      [&] {
        try_out({{"sync"}, {"eager-quorum:9"}, {"local", 4}}, replicas_of(3, 5, 2), kFastHosts, 1, 2);
      },
      ThrowsMessage<UsageError>(::testing::HasSubstr("9")));
}

}  // namespace
}  // namespace stretto::command
