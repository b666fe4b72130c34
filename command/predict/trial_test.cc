#include "command/predict/trial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command/predict/step_times_argument.h"
#include "stretto/base/error.h"

namespace stretto::command {
namespace {

using ::testing::SizeIs;
using ::testing::ThrowsMessage;

const SimulatedHosts kHosts{.network = "latency=1us,bandwidth=100GB/s", .model_bytes = 4096};

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
  const auto alone = try_out(choices, replicas, kHosts, 7, 1);
  const auto together = try_out(choices, replicas, kHosts, 7, 5);
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

TEST(Trial, OfAChoiceThatDoesNotFitSaysWhy) {
  EXPECT_THAT(
      [&] {
        try_out({{"sync"}, {"eager-quorum:9"}, {"local", 4}}, replicas_of(3, 5, 2), kHosts, 1, 2);
      },
      ThrowsMessage<UsageError>(::testing::HasSubstr("9")));
}

}  // namespace
}  // namespace stretto::command
