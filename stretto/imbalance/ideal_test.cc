#include "stretto/imbalance/ideal.h"

#include <gtest/gtest.h>

#include <vector>

#include "stretto/base/random.h"
#include "stretto/imbalance/pace.h"
#include "stretto/imbalance/spec.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

TEST(Ideal, EqualStepsAreTheSameEitherWay) {
  for (int ranks : {1, 2, 3, 8}) {
    for (std::uint64_t batches : {0u, 1u, 7u, 24u}) {
      const auto equal = [](int, std::uint64_t, std::uint64_t) -> Duration { return 10ms; };
      const auto expected = 10ms * static_cast<std::int64_t>((batches + static_cast<std::uint64_t>(ranks) - 1) /
                                                             static_cast<std::uint64_t>(ranks));
      EXPECT_EQ(ideal_makespan(ranks, batches, equal), expected);
      EXPECT_EQ(synchronous_makespan(ranks, batches, equal), expected);
    }
  }
}

TEST(Ideal, ByHand) {
  const std::vector<Duration> times = {3ms, 1ms, 1ms, 2ms, 4ms};
  std::vector<std::pair<int, std::uint64_t>> asked;
  const auto of_batch = [&](int rank, std::uint64_t step, std::uint64_t batch) {
    asked.emplace_back(rank, step);
    return times[batch];
  };
  // Rank 0 computes batch 0 until 3 ms, rank 1 batches 1, 2 and 3 until 4 ms; batch 4 goes to rank 0.
  EXPECT_EQ(ideal_makespan(2, 5, of_batch), 7ms);
  EXPECT_EQ(asked, (std::vector<std::pair<int, std::uint64_t>>{{0, 0}, {1, 0}, {1, 1}, {1, 2}, {0, 1}}));
  asked.clear();
  EXPECT_EQ(synchronous_makespan(2, 5, of_batch), 3ms + 2ms + 4ms);
  EXPECT_EQ(asked, (std::vector<std::pair<int, std::uint64_t>>{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {0, 2}}));
}

TEST(Ideal, TheShortestLeavesTheLastBatchToWhoIsDoneWithItFirst) {
  const auto time = [](int rank, std::uint64_t step) -> Duration { return rank == 0 ? 2ms : step == 0 ? 1ms : 100ms; };
  EXPECT_EQ(shortest_makespan(2, 4, time), 6ms) << "rank 1 makes one batch, rank 0 three";
  EXPECT_EQ(ideal_makespan(2, 4, [&](int rank, std::uint64_t step, std::uint64_t) { return time(rank, step); }), 101ms);
  EXPECT_EQ(shortest_makespan(2, 0, time), 0ms);
}

double speedup(const std::string& imbalance, int ranks, std::uint64_t batches, Duration pace) {
  const auto drawn = Imbalance::parse(imbalance, ranks);
  const auto time = [&](int rank, std::uint64_t step, std::uint64_t) {
    return paced_step_time(pace, 1, drawn.draw(1, rank, step));
  };
  return seconds(synchronous_makespan(ranks, batches, time)) / seconds(ideal_makespan(ranks, batches, time));
}

TEST(Ideal, OneDrawnRankLateHasTheArithmeticOfTheHyperplane) {
  // (T + d) / (T + d/P) with T = 400 ms, P = 8.
  EXPECT_NEAR(speedup("random:ranks=1,delay=200ms", 8, 8 * 768, 400ms), 1.41, 0.01);
  EXPECT_NEAR(speedup("random:ranks=1,delay=300ms", 8, 8 * 768, 400ms), 1.60, 0.01);
  EXPECT_NEAR(speedup("random:ranks=1,delay=400ms", 8, 8 * 768, 400ms), 1.78, 0.01);
}

TEST(Ideal, OneRankThreeTimesSlowerHasASpeedupOfThreeTimesTheMeanRate) {
  // (7 + 1/3) / 8 of the full rate, against 1/3: 2.75 for equal batches.
  EXPECT_NEAR(speedup("persistent:rank=3,factor=3", 8, 8 * 1000, 10ms), 2.75, 0.01);
}

TEST(Ideal, IsNeverWorseThanABarrierNorBetterThanTheWorkAllows) {
  Random random(3);
  for (int trial = 0; trial < 200; ++trial) {
    const int ranks = static_cast<int>(random.between(1, 9));
    std::vector<Duration> times(random.below(60));
    Duration work{0}, longest{0};
    for (auto& time : times) {
      time = Duration{random.between(0, 1000)};
      work += time;
      longest = std::max(longest, time);
    }
    const auto of_batch = [&](int, std::uint64_t, std::uint64_t batch) { return times[batch]; };
    const auto ideal = ideal_makespan(ranks, times.size(), of_batch);
    EXPECT_GE(ideal * ranks, work);
    EXPECT_LE(ideal, work / ranks + longest);
    EXPECT_GE(synchronous_makespan(ranks, times.size(), of_batch) * ranks, work);
  }
}

}  // namespace
}  // namespace stretto
