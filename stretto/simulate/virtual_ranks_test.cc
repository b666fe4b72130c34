#include "stretto/simulate/virtual_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace stretto {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(VirtualRanks, GoOnInTheOrderOfVirtualTime) {
  for (const int threads : {1, 2, 5}) {
    SimulatedCluster cluster(3, {}, 1);
    std::vector<std::string> log;  // in turns, so that nothing guards it
    VirtualRanks(cluster, threads).run([&](VirtualRank& rank) {
      for (int step = 1; step <= 2; ++step) {
        rank.compute((3 - rank.rank()) * 1h);
        log.push_back(text(rank.rank(), " at ", seconds(rank.clock().now().since_start) / 3600));
      }
    });
    EXPECT_THAT(log, ElementsAre("2 at 1", "1 at 2", "2 at 2", "0 at 3", "1 at 4", "0 at 6"));
  }
}

TEST(VirtualRanks, ComputeBesideEachOther) {
  SimulatedCluster cluster(2, {}, 1);
  std::binary_semaphore first{0}, second{0};
  VirtualRanks(cluster, 2).run([&](VirtualRank& rank) {
    rank.compute(1ms, [&] {  // each waits for the other
      (rank.rank() == 0 ? first : second).release();
      (rank.rank() == 0 ? second : first).acquire();
    });
  });
  EXPECT_EQ(cluster.now().since_start, 1ms);
}

TEST(VirtualRanks, ComputeOnAsManyCoresAsTheyAreGiven) {
  SimulatedCluster cluster(16, {}, 1);
  std::atomic<int> now{0}, most{0};
  VirtualRanks(cluster, 3).run([&](VirtualRank& rank) {
    for (int step = 0; step < 20; ++step) {
      rank.compute(1ms, [&] {
        const int here = ++now;
        for (int seen = most; seen < here && !most.compare_exchange_weak(seen, here);) {
        }
        std::this_thread::yield();
        --now;
      });
    }
  });
  EXPECT_LE(most, 3);
  EXPECT_EQ(cluster.now().since_start, 20ms);
}

TEST(VirtualRanks, RethrowWhatWorkAndApplicationsThrow) {
  for (const int threads : {1, 2}) {
    SimulatedCluster cluster(3, {}, 1);
    int went_on = 0;
    try {
      VirtualRanks(cluster, threads).run([&](VirtualRank& rank) {
        rank.compute(1ms, [&] {
          if (rank.rank() > 0) throw std::runtime_error(text("rank ", rank.rank()));
        });
        ++went_on;
      });
      ADD_FAILURE();
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "rank 1");
    }
    EXPECT_EQ(went_on, 1);
  }
}

TEST(VirtualRanks, SayWhenTheyWaitForEver) {
  SimulatedCluster cluster(2, {}, 1);
  try {
    VirtualRanks(cluster).run([](VirtualRank& rank) {
      Engine engine(rank.transport(), rank.clock());
      rank.drive_engine(&engine);
      if (rank.rank() == 1) rank.compute(2 * VirtualRanks::kStuckAfter);  // no wait is for ever meanwhile
      while (!rank.wait([] { return false; }, rank.deadline(10s))) {
      }
    });
    ADD_FAILURE();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.error().code, Errc::timeout);
    EXPECT_THAT(failure.what(), HasSubstr("no rank goes on"));
  }
  EXPECT_GT(cluster.now().since_start, 3 * VirtualRanks::kStuckAfter);
  EXPECT_LT(cluster.now().since_start, 3 * VirtualRanks::kStuckAfter + 20s);
}

TEST(VirtualRanks, WaitForAMessageThatTakesLong) {
  constexpr Duration kLatency = 3 * VirtualRanks::kStuckAfter;
  SimulatedCluster cluster(2, {.latency = kLatency}, 1);
  VirtualRanks(cluster).run([&](VirtualRank& rank) {
    Engine engine(rank.transport(), rank.clock());
    rank.drive_engine(&engine);
    if (rank.rank() == 0) return rank.transport().send(1, {}, {}, {}, kNoToken);
    const auto come = [&] { return rank.clock().now().since_start >= kLatency; };
    while (!rank.wait(come, rank.deadline(10s))) {
    }
  });
  EXPECT_GE(cluster.now().since_start, kLatency);
}

TEST(VirtualRanks, AWaitThrowsWhatItsConditionThrows) {
  SimulatedCluster cluster(1, {}, 1);
  const auto run = [&] {
    VirtualRanks(cluster).run([](VirtualRank& rank) {
      Engine engine(rank.transport(), rank.clock());
      rank.drive_engine(&engine);
      const TimePoint late = rank.deadline(1ms);
      rank.cluster().after(2ms, 0, [&rank] { rank.notify(); });
      rank.wait(
          [&] {
            if (rank.clock().now() > late) throw UsageError("too late");
            return false;
          },
          rank.deadline(1s));
    });
  };
  EXPECT_THROW(run(), UsageError);
}

}  // namespace
}  // namespace stretto
