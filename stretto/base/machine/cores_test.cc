#include "stretto/base/machine/cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

namespace stretto {

namespace {

namespace fs = std::filesystem;

/// A folder that looks like the root of a machine.
class CoresTest : public testing::Test {
 protected:
  CoresTest() {
    std::string name = (fs::temp_directory_path() / "stretto-cores-XXXXXX").string();
    root_ = mkdtemp(name.data());
  }
  ~CoresTest() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& content) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << content;
  }
  int all() const { return static_cast<int>(usable_cores().size()); }

  std::string root_;
};

TEST_F(CoresTest, AreThoseTheProcessMayRunOn) {
  EXPECT_EQ(count_cores(root_), all());
  int pinned = 0, number = -1;
  // The affinity of a thread of its own, which ends with it.
  std::thread([&] {
    number = usable_cores().back();
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(number, &set);
    ASSERT_EQ(::sched_setaffinity(0, sizeof set, &set), 0);
    pinned = count_cores(root_);
    EXPECT_EQ(usable_cores(), std::vector<int>{number});
  }).join();
  EXPECT_EQ(pinned, 1);
}

TEST_F(CoresTest, AreBoundByTheQuotaOfAllGroupsAround) {
  write("/proc/self/cgroup", "0::/outer/inner\n");
  write("/sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n");
  EXPECT_EQ(count_cores(root_), all());
  write("/sys/fs/cgroup/outer/cpu.max", "50000 100000\n");
  EXPECT_EQ(count_cores(root_), 1) << "half a core keeps one busy for half of the time";
  write("/sys/fs/cgroup/outer/cpu.max", "100001 100000\n");
  EXPECT_EQ(count_cores(root_), std::min(2, all())) << "rounded up";
}

TEST_F(CoresTest, AreBoundByTheFirstVersionOfControlGroups) {
  write("/proc/self/cgroup", "5:cpu,cpuacct:/job/step\n4:memory:/job\n");
  write("/sys/fs/cgroup/cpu/job/step/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/cpu/job/step/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(count_cores(root_), all());
  write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "20000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(count_cores(root_), 1);
}

TEST_F(CoresTest, AQuotaSeenFromInsideANamespaceIsAtTheMount) {
  write("/proc/self/cgroup", "0::/../../docker/0123\n");
  write("/sys/fs/cgroup/cpu.max", "100000 100000\n");
  EXPECT_EQ(count_cores(root_), 1);
}

TEST_F(CoresTest, NonsenseBindsNothing) {
  write("/proc/self/cgroup", "0::/a\nx\n:\n1:cpu\n");
  for (const char* content : {"", "max", "5", "0 0", "100000 0", "-1 -1", "99999999999999999999 1", "x y"}) {
    write("/sys/fs/cgroup/a/cpu.max", content);
    EXPECT_EQ(count_cores(root_), all()) << content;
  }
}

TEST_F(CoresTest, TellHowTheyAreShared) {
  EXPECT_EQ(core_sharing(root_), CoreSharing()) << "nothing is said";
  write("/proc/self/cgroup", "0::/outer/inner\n");
  write("/sys/fs/cgroup/outer/inner/cpu.stat", "usage_usec 7\n");
  write("/sys/fs/cgroup/outer/cpu.stat", "usage_usec 9\nnr_periods 8\nnr_throttled 3\nthrottled_usec 4500\n");
  write("/proc/sys/kernel/sched_min_granularity_ns", "2250000\n");
  const CoreSharing before = core_sharing(root_);
  EXPECT_EQ(before, (CoreSharing{.slice_ns = 2'250'000, .throttled_periods = 3, .throttled_microseconds = 4500}));
  write("/sys/kernel/debug/sched/base_slice_ns", "3000000\n");
  write("/sys/fs/cgroup/outer/cpu.stat", "nr_throttled 5\nthrottled_usec 5250\n");
  EXPECT_EQ(core_sharing(root_).since(before),
            (CoreSharing{.slice_ns = 3'000'000, .throttled_periods = 2, .throttled_microseconds = 750}));
  EXPECT_EQ(core_sharing(root_).since({}), (CoreSharing{.slice_ns = 3'000'000})) << "since when is not known";
}

TEST_F(CoresTest, TellHowTheyAreSharedInTheFirstVersionOfControlGroups) {
  write("/proc/self/cgroup", "5:cpu,cpuacct:/job\n");
  write("/sys/fs/cgroup/cpu/job/cpu.stat", "nr_periods 8\nnr_throttled 2\nthrottled_time 7000000\n");
  EXPECT_EQ(core_sharing(root_), (CoreSharing{.throttled_periods = 2, .throttled_microseconds = 7000}));
}

using namespace std::chrono_literals;

Idleness::Reading now{};
Idleness::Reading read_now() {
  return now;
}

/// A thread has run for some part of the time that has passed.
void pass(std::chrono::nanoseconds wall, std::chrono::nanoseconds ran) {
  now.wall += wall;
  now.ran += ran;
}

TEST(Idleness, IsToHaveRunForLessThanHalfOfTheTime) {
  Idleness idleness(read_now);
  pass(20ms, 0ms);
  EXPECT_TRUE(idleness.idles());
  pass(20ms, 10ms - 1ns);
  EXPECT_TRUE(idleness.idles());
  pass(20ms, 10ms);
  EXPECT_FALSE(idleness.idles());
  pass(20ms, 20ms);
  EXPECT_FALSE(idleness.idles());
}

TEST(Idleness, CountsFromTheLastCallOn) {
  Idleness idleness(read_now);
  pass(1h, 0ms);
  EXPECT_TRUE(idleness.idles());
  pass(2ms, 2ms);
  EXPECT_FALSE(idleness.idles()) << "the hour before the last call counts";
  pass(1h, 0ms);
  idleness.begin();
  pass(2ms, 2ms);
  EXPECT_FALSE(idleness.idles()) << "the hour before begin() counts";
}

// Each waits until it has seen what it wants, or the watchdog ends the test.
TEST(Idleness, OfTheCallingThread) {
  Idleness idleness;
  do {
    for (const Duration until = thread_time() + 1ms; thread_time() < until;) {
    }
  } while (idleness.idles());
  do {
    std::this_thread::sleep_for(1ms);
  } while (!idleness.idles());
}

}  // namespace

}  // namespace stretto
