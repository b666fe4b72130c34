#include "stretto/ordering/options/ordering_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "stretto/ordering/runtime/ordering_counters.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

TEST(OrderingStatistics, KeepTheNewestNumbers) {
  OrderingStatistics all;
  for (std::size_t i = 0; i < OrderingStatistics::kKept + 10; ++i) {
    all.note_arrival({Duration(i)});
    all.note_oversleep(Duration(i));
  }
  EXPECT_EQ(all.syncs, OrderingStatistics::kKept + 10);
  EXPECT_EQ(all.arrivals.size(), OrderingStatistics::kKept);
  EXPECT_EQ(all.arrivals.front(), TimePoint{Duration(10)});
  EXPECT_EQ(all.oversleeps.size(), OrderingStatistics::kKept);
  EXPECT_EQ(all.oversleeps.front(), Duration(10));
}

TEST(OrderingStatistics, PutTheArrivalsOfRanksTogether) {
  OrderingStatistics ranks[3];
  for (int sync = 0; sync < 4; ++sync) {
    for (int rank = 0; rank < 3; ++rank) ranks[rank].note_arrival({1s * sync + 3ms * rank * sync});
  }
  ranks[1].note_arrival({9s});    // the others have not come yet
  ranks[2].arrivals.pop_front();  // not kept
  const SyncSkew skew = sync_skew(ranks);
  EXPECT_THAT(skew.spread, ElementsAre(6ms, 12ms, 18ms));
  ASSERT_EQ(skew.arrivals.size(), 3u);
  for (std::size_t sync = 0; sync < 3; ++sync) {
    const double late = 0.003 * (static_cast<double>(sync) + 1);
    EXPECT_NEAR(skew.arrivals[0][sync], -late, 1e-12);
    EXPECT_NEAR(skew.arrivals[1][sync], 0, 1e-12);
    EXPECT_NEAR(skew.arrivals[2][sync], late, 1e-12);
  }
  EXPECT_TRUE(sync_skew({}).spread.empty());
}

TEST(OrderingStatistics, OfSeveralHostsAreToldByOneClock) {
  OrderingStatistics ranks[2];
  for (int rank = 0; rank < 2; ++rank) {
    const Duration ahead = rank * 24h * 365;
    ranks[rank].note_arrival({1s + rank * 3ms + ahead});
    ranks[rank].note_buffer({.begun = {2s + ahead}, .submitted = {{1s + rank * 500ms + ahead}, TimePoint::never()}});
    ranks[rank].tell_by_clock_behind(ahead);
  }
  EXPECT_THAT(sync_skew(ranks).spread, ElementsAre(3ms));
  EXPECT_THAT(mean_stalls(ranks), ElementsAre(0.5, 0));
  EXPECT_EQ(ranks[1].buffer_times.front().begun, TimePoint{2s});
  EXPECT_EQ(ranks[1].buffer_times.front().submitted.back(), TimePoint::never());
}

TEST(OrderingStatistics, KeepTheTimesOfSoManyTensors) {
  OrderingStatistics all;
  const std::vector<TimePoint> submitted(OrderingStatistics::kKeptTensors / 4);
  for (std::uint64_t number = 0; number < 7; ++number) all.note_buffer({.number = number, .submitted = submitted});
  EXPECT_EQ(all.timed_tensors, OrderingStatistics::kKeptTensors);
  EXPECT_EQ(all.buffer_times.size(), 4u);
  EXPECT_EQ(all.buffer_times.front().number, 3u);
}

TEST(OrderingStatistics, ATensorStallsUntilTheLastRankHasHandedItOver) {
  const auto at = [](int ms) { return TimePoint{1ms * ms}; };
  const TimePoint never = TimePoint::never();
  OrderingStatistics ranks[3];
  // Set 0: the first tensor waits for rank 1, the second for rank 0; rank 2 brings the first alone.
  ranks[0].note_buffer({.number = 0, .begun = at(20), .submitted = {at(4), at(12)}});
  ranks[1].note_buffer({.number = 0, .begun = at(30), .submitted = {at(10), at(2)}});
  ranks[2].note_buffer({.number = 0, .begun = at(8), .submitted = {at(6), never}});  // begins before rank 1 has it
  // Set 1, of ranks 0 and 1.
  ranks[0].note_buffer({.set = 1, .number = 0, .begun = at(50), .submitted = {at(40)}});
  ranks[1].note_buffer({.set = 1, .number = 0, .begun = at(50), .submitted = {at(49)}});
  // Not begun on every rank.
  ranks[0].note_buffer({.number = 1, .begun = at(90), .submitted = {at(60)}});
  ranks[1].note_buffer({.number = 1, .begun = at(90), .submitted = {at(80)}});
  const auto stalls = mean_stalls(ranks);
  ASSERT_EQ(stalls.size(), 3u);
  EXPECT_DOUBLE_EQ(stalls[0], (0.006 + 0 + 0.009) / 3);
  EXPECT_DOUBLE_EQ(stalls[1], (0 + 0.010 + 0) / 3);
  EXPECT_DOUBLE_EQ(stalls[2], 0.002);
  EXPECT_TRUE(mean_stalls({}).empty());
  EXPECT_DOUBLE_EQ(mean_stalls(std::vector<OrderingStatistics>(2))[1], 0);
}

TEST(OrderingStatistics, AutocorrelationByHand) {
  const double up[] = {1, 2, 3, 4};  // deviations −1.5, −0.5, 0.5, 1.5; squares 5
  EXPECT_DOUBLE_EQ(autocorrelation(up, 0), 1);
  EXPECT_DOUBLE_EQ(autocorrelation(up, 1), 1.25 / 5);
  EXPECT_DOUBLE_EQ(autocorrelation(up, 2), -1.5 / 5);
  EXPECT_DOUBLE_EQ(autocorrelation(up, 3), -2.25 / 5);
  EXPECT_DOUBLE_EQ(autocorrelation(up, 4), 0);
  const double same[] = {2, 2, 2};
  EXPECT_DOUBLE_EQ(autocorrelation(same, 1), 0);
}

TEST(OrderingCounters, TellTheBackgroundThreadFromTheApplications) {
  OrderingCounters counters;
  const auto burn = [](Duration at_least) {
    volatile double x = 1;
    const SteadyClock clock;
    timespec start{}, now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    do {
      for (int i = 0; i < 1000; ++i) x = x * 1.0000001;
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while (1s * (now.tv_sec - start.tv_sec) + 1ns * (now.tv_nsec - start.tv_nsec) < at_least);
  };
  counters.enter_application();
  counters.driven(true);
  burn(2ms);
  counters.driven(false);
  EXPECT_GE(counters.read().spun, 2ms);
  EXPECT_EQ(counters.read().background_cpu, 0ms);
  std::thread helper([&] {
    counters.driven(false);
    burn(3ms);
    counters.driven(false);
    EXPECT_GE(counters.read().background_cpu, 3ms);
  });
  helper.join();
  counters.count([](OrderingStatistics& all) { all.buffers += 5; });
  EXPECT_EQ(counters.read().buffers, 5u);
}

}  // namespace
}  // namespace stretto
