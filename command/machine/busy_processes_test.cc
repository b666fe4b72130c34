#include "command/machine/busy_processes.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>

namespace stretto::command {
namespace {

TEST(BusyProcesses, EndWithTheirOwner) {
  std::vector<pid_t> processes;
  {
    const BusyProcesses busy(2);
    processes = busy.processes();
    ASSERT_EQ(processes.size(), 2u);
    for (const pid_t process : processes) EXPECT_EQ(::kill(process, 0), 0);
  }
  for (const pid_t process : processes) {
    EXPECT_EQ(::kill(process, 0), -1);
    EXPECT_EQ(errno, ESRCH);
  }
}

}  // namespace
}  // namespace stretto::command
