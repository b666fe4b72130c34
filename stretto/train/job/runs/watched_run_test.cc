#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

#include "stretto/base/error.h"
#include "stretto/train/job/run.h"
#include "stretto/train/testing/test_task.h"

namespace stretto {
namespace {

using testing::Each;
using testing::Ge;

class WatchedRun : public testing::Test {
 protected:
  WatchedRun() { ::alarm(100); }
  ~WatchedRun() override { ::alarm(0); }
};

TEST_F(WatchedRun, ShowsEachStepOfEachRankOnce) {
  constexpr int kRanks = 3;
  constexpr std::size_t kSteps = 12;
  std::vector<std::vector<float>> steps(kRanks);
  std::vector<std::uint64_t> next(kRanks);
  RunHooks hooks{.progress =
                     [&](const RunProgress& progress) {
                       if (progress.steps == nullptr) return;  // a notice
                       ASSERT_EQ(progress.steps->ranks(), kRanks);
                       for (std::size_t rank = 0; rank < kRanks; ++rank) {
                         next[rank] = progress.steps->read(static_cast<int>(rank), next[rank], steps[rank]);
                       }
                     },
                 .recent_steps = true};
  const TrainOptions options{.ranks = kRanks,
                             .steps = kSteps,
                             .batch = 1,
                             .imbalance = "persistent:rank=1,delay=2ms",
                             .pace = std::chrono::milliseconds(1)};
  run_training(options, *linear_task(), hooks);
  for (const auto& rank : steps) {
    EXPECT_EQ(rank.size(), kSteps);
    EXPECT_THAT(rank, Each(Ge(0.001F))) << "no step is shorter than its pace";
  }
  EXPECT_THAT(steps[1], Each(Ge(0.003F))) << "nor than its delay";
}

TEST_F(WatchedRun, NobodyWhoDidNotAskIsShownSteps) {
  bool shown = false;
  RunHooks hooks{.progress = [&](const RunProgress& progress) { shown |= progress.steps != nullptr; }};
  run_training({.ranks = 2, .steps = 4, .batch = 1}, *linear_task(), hooks);
  EXPECT_FALSE(shown);
}

TEST_F(WatchedRun, IsNoSimulatedOne) {
  const TrainOptions options{
      .ranks = 2, .steps = 4, .batch = 1, .pace = std::chrono::milliseconds(1), .simulated = true};
  EXPECT_THROW(run_training(options, *linear_task(), {.recent_steps = true}), UsageError);
}

}  // namespace
}  // namespace stretto
