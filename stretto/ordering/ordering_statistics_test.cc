#include "stretto/ordering/ordering_statistics.h"

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
