#include "stretto/simulate/virtual_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <list>
#include <stdexcept>
#include <string>
#include <vector>

#include "stretto/base/error.h"

namespace stretto {

namespace {

/// Touches that many bytes of stack and a little more.
int go_down(std::size_t bytes) {  // NOLINT(misc-no-recursion): this is what is tested
  std::array<volatile char, 4096> frame{};
  frame[0] = 1;
  return bytes < frame.size() ? frame[0] : frame[0] + go_down(bytes - frame.size());
}

/// How a process ends that touches so many bytes in such a thread.
int status_of(std::size_t bytes) {
  const pid_t process = fork();
  if (process == 0) {
    const rlimit no_file{0, 0};
    setrlimit(RLIMIT_CORE, &no_file);
    std::signal(SIGSEGV, SIG_DFL);
    {
      const RankThread thread([bytes] { go_down(bytes); });
    }
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(process, &status, 0), process);
  return status;
}

TEST(RankThread, HasTheStackItPromises) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "NOT TESTED under sanitizers: their frames are larger";
#endif
  EXPECT_EQ(status_of(RankThread::kStack * 3 / 4), 0);
}

TEST(RankThread, EndsTheProcessWhereItsStackIsUsedUp) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "NOT TESTED under sanitizers: they handle the signal themselves";
#endif
  const int status = status_of(RankThread::kStack * 2);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGSEGV);
}

TEST(RankThread, SaysThatThereIsNoRoomForAnother) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "NOT TESTED under sanitizers: their shadow memory is beyond any such limit";
#endif
  const pid_t process = fork();
  if (process == 0) {
    const rlimit little{std::size_t{1} << 30, std::size_t{1} << 30};
    setrlimit(RLIMIT_AS, &little);
    std::list<RankThread> threads;
    try {
      for (int i = 0; i < 1000; ++i) threads.emplace_back([] {});
    } catch (const Failure& failure) {
      const bool told = std::string(failure.what()).find("ulimit -v") != std::string::npos;
      _exit(told && failure.error().code == Errc::unavailable && threads.size() > 100 ? 0 : 1);
    }
    _exit(2);
  }
  int status = 0;
  EXPECT_EQ(waitpid(process, &status, 0), process);
  EXPECT_EQ(status, 0) << "with stacks of 8 MiB there are fewer";
}

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

struct Interruption {};

TEST(VirtualRanks, EndsAWaitAndAComputationFromOutside) {
  for (const int threads : {1, 3}) {
    SimulatedCluster cluster(3, {}, 1);
    VirtualRanks ranks(cluster, threads);
    std::array<double, 3> ended{};
    ranks.run([&](VirtualRank& rank) {
      const auto end = [&rank] { rank.interrupt(std::make_exception_ptr(Interruption())); };
      try {
        if (rank.rank() < 2) cluster.after(std::chrono::seconds(2), 2, end);
        if (rank.rank() == 0) rank.compute(std::chrono::seconds(5));
        if (rank.rank() == 1) rank.wait_until([] { return false; });
        rank.compute(std::chrono::seconds(4));
      } catch (const Interruption&) {
        rank.compute(std::chrono::seconds(1));  // the event of the one that was ended ends no other
        if (rank.rank() == 0) rank.compute(std::chrono::seconds(6));
      }
      ended[static_cast<std::size_t>(rank.rank())] = seconds(cluster.now().since_start);
    });
    EXPECT_THAT(ended, testing::ElementsAre(9, 3, 4)) << threads << " threads";
  }
}

}  // namespace

}  // namespace stretto
