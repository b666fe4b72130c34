#include "stretto/base/machine/process_limits.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "stretto/base/error.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;

/// A folder that looks like the root of a machine.
class MemoryBudgetTest : public testing::Test {
 protected:
  MemoryBudgetTest() {
    std::string name = (fs::temp_directory_path() / "stretto-budget-XXXXXX").string();
    root_ = mkdtemp(name.data());
    write("/proc/meminfo", "MemTotal:        8000 kB\nMemFree:          100 kB\nMemAvailable:    4000 kB\n");
  }
  ~MemoryBudgetTest() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& content) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << content;
  }

  std::string root_;
};

TEST_F(MemoryBudgetTest, IsWhatTheMachineHasAvailable) {
  const auto budget = memory_budget(root_);
  EXPECT_EQ(budget.bytes, 4000u * 1024);
  EXPECT_EQ(budget.limit, "free memory of the machine");
}

TEST_F(MemoryBudgetTest, IsBoundByTheLimitsOfAllGroupsAround) {
  write("/proc/self/cgroup", "0::/outer/inner\n");
  write("/sys/fs/cgroup/outer/memory.max", "1000000\n");
  write("/sys/fs/cgroup/outer/memory.current", "700000\n");
  write("/sys/fs/cgroup/outer/memory.stat", "anon 1\nfile 500000\ninactive_file 200000\n");
  write("/sys/fs/cgroup/outer/inner/memory.max", "max\n");
  write("/sys/fs/cgroup/outer/inner/memory.current", "700000\n");
  const auto budget = memory_budget(root_);
  EXPECT_EQ(budget.bytes, 500000u);
  EXPECT_EQ(budget.limit, "memory limit of the container");
}

TEST_F(MemoryBudgetTest, KnowsTheFirstVersionOfControlGroups) {
  write("/proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/job\n0::/\n");
  write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "300000\n");
  write("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "400000\n");
  EXPECT_EQ(memory_budget(root_).bytes, 0u);
  write("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "100000\n");
  EXPECT_EQ(memory_budget(root_).bytes, 200000u);
}

TEST_F(MemoryBudgetTest, ACapOfAGroupSeenFromInsideItsNamespaceIsAtTheMount) {
  write("/proc/self/cgroup", "4:memory:/docker/0123\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "5000\n");
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1000\n");
  EXPECT_EQ(memory_budget(root_).bytes, 4000u);
}

TEST_F(MemoryBudgetTest, IsBoundByTheAddressesLeft) {
  write("/proc/meminfo", "MemAvailable: 400000000000 kB\n");
  write("/proc/self/status", "Name:\ttest\nVmSize:\t  1000000 kB\n");
  // More than a sanitizer takes. In a process of its own, which the limit is of.
  const auto look = [this] {
    const rlimit limit{std::uint64_t{1} << 47, RLIM_INFINITY};
    const bool set = setrlimit(RLIMIT_AS, &limit) == 0;
    const auto budget = memory_budget(root_);
    const bool right = budget.bytes == ((std::uint64_t{1} << 47) - std::uint64_t{1'000'000} * 1024) / 2 &&
                       budget.limit == "address space limit (ulimit -v)" &&
                       available_memory(root_).bytes > budget.bytes;
    _exit(set && right ? 0 : 1);
  };
  EXPECT_EXIT(look(), testing::ExitedWithCode(0), "");
}

TEST_F(MemoryBudgetTest, TheEnvironmentOverridesIt) {
  setenv("STRETTO_SHM_LIMIT", "12345", 1);
  EXPECT_EQ(memory_budget(root_).bytes, 12345u);
  EXPECT_EQ(memory_budget(root_).limit, "STRETTO_SHM_LIMIT");
  setenv("STRETTO_SHM_LIMIT", "12 MiB", 1);
  EXPECT_THROW(memory_budget(root_), UsageError);
  unsetenv("STRETTO_SHM_LIMIT");
}

TEST(Descriptors, AreRaisedToTheHardLimitAndNamedWhereTheyAreTooFew) {
  const auto raise = [] {
    const rlimit low{.rlim_cur = 100, .rlim_max = 2000};
    const bool set = setrlimit(RLIMIT_NOFILE, &low) == 0;
    const bool enough = raise_descriptors(1000).empty();
    rlimit raised{};
    getrlimit(RLIMIT_NOFILE, &raised);
    const std::string why = raise_descriptors(2001);
    const bool named = why.starts_with("this process may have 2000 descriptors, has ") &&
                       why.find(" and needs 2001 more (RLIMIT_NOFILE, ulimit -n): expected at least ulimit -n 20") !=
                           std::string::npos;
    _exit(set && enough && raised.rlim_cur == 2000 && named ? 0 : 1);
  };
  EXPECT_EXIT(raise(), testing::ExitedWithCode(0), "");
}

TEST(FormatBytes, NamesTheUnit) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(64u << 20), "64.0 MiB");
  EXPECT_EQ(format_bytes(~std::uint64_t{0}), "16.0 EiB");
}

}  // namespace
}  // namespace stretto
