#include "stretto/membership/processes/job_processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <utility>

namespace stretto {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

/// A pipe whose writing end all processes of a test keep until their ends.
class HeldPipe {
 public:
  HeldPipe() { EXPECT_EQ(pipe(ends_.data()), 0); }
  ~HeldPipe() { close(ends_[0]), close(ends_[1]); }
  void write_byte() const { EXPECT_EQ(write(ends_[1], "x", 1), 1); }
  void read_byte() const {
    char byte = 0;
    EXPECT_EQ(read(ends_[0], &byte, 1), 1);
  }
  /// Closes the end of this process, and waits until no other has it.
  void expect_all_ended() {
    close(std::exchange(ends_[1], -1));
    pollfd look{ends_[0], POLLIN, 0};
    EXPECT_EQ(poll(&look, 1, 10'000), 1) << "a process is still there";
    char byte = 0;
    EXPECT_EQ(read(ends_[0], &byte, 1), 0);
  }

 private:
  std::array<int, 2> ends_{};
};

[[noreturn]] void pause_for_ever() {
  while (true) pause();
}

class JobProcessesTest : public testing::Test {
 protected:
  JobProcesses::Options options(int ranks) {
    return {.ranks = ranks,
            .own_sessions = true,
            .grace_after_interrupt = 1h,
            .ended = [this](int, int wait_status) { ends_.push_back(exit_status_of(wait_status)); },
            .interrupted = [] { return true; }};
  }
  static void watch(JobProcesses& processes) {
    processes.wait({}, 10ms);
    processes.attend();
  }
  std::vector<int> ends_;
};

TEST_F(JobProcessesTest, WhatARankLeavesBehindIsKnownAndCanBeEnded) {
  HeldPipe held;
  JobProcesses processes(options(1));
  ASSERT_TRUE(processes.start(0, [&] {
    if (fork() == 0) {
      held.write_byte();
      pause_for_ever();
    }
    _exit(0);
  }));
  held.read_byte();
  while (processes.running() > 0) watch(processes);
  EXPECT_THAT(ends_, ElementsAre(0));
  EXPECT_TRUE(processes.left());
  processes.send_all(SIGTERM);
  while (processes.left()) watch(processes);
}

TEST_F(JobProcessesTest, ARankThatLeavesNothingBehindLeavesNoGroup) {
  JobProcesses processes(options(1));  // more are started
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(processes.start(rank, [=] { _exit(rank); }));
  }
  while (processes.running() > 0) watch(processes);
  EXPECT_THAT(ends_, testing::UnorderedElementsAre(0, 1, 2));
  EXPECT_FALSE(processes.left());
  EXPECT_EQ(processes.process(1), 0);
}

/// The rank's own child is not told of its parent's death by the kernel: the guard ends it.
TEST_F(JobProcessesTest, NothingIsLeftWhenTheLauncherIsKilled) {
  HeldPipe held;
  const pid_t launcher = fork();
  if (launcher == 0) {
    JobProcesses processes(options(2));
    for (int rank = 0; rank < 2; ++rank) {
      (void)processes.start(rank, [&] {
        (void)fork();
        held.write_byte();
        pause_for_ever();
      });
    }
    pause_for_ever();
  }
  for (int i = 0; i < 4; ++i) held.read_byte();
  kill(launcher, SIGKILL);
  int status = 0;
  EXPECT_EQ(waitpid(launcher, &status, 0), launcher);
  EXPECT_EQ(exit_status_of(status), 128 + SIGKILL);
  held.expect_all_ended();
}

TEST_F(JobProcessesTest, ASignalIsPassedOnAsItIsAndTheSecondOneKills) {
  HeldPipe held;
  JobProcesses processes(options(2));
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(processes.start(rank, [&] {
      sigset_t hangup;
      sigemptyset(&hangup);
      sigaddset(&hangup, SIGHUP);
      sigprocmask(SIG_BLOCK, &hangup, nullptr);
      held.write_byte();
      int signal = 0;
      sigwait(&hangup, &signal);
      if (rank == 0) _exit(0);
      held.write_byte();
      pause_for_ever();
    }));
  }
  for (int i = 0; i < 2; ++i) held.read_byte();
  raise(SIGHUP);
  while (processes.running() == 2) watch(processes);
  held.read_byte();
  EXPECT_EQ(processes.interrupted(), SIGHUP);
  EXPECT_FALSE(processes.killing());
  raise(SIGINT);
  while (processes.running() > 0) watch(processes);
  EXPECT_TRUE(processes.killing());
  EXPECT_EQ(processes.interrupted(), SIGHUP);
  EXPECT_THAT(ends_, ElementsAre(0, 128 + SIGKILL));
}

TEST_F(JobProcessesTest, OfEndsThatAreFoundAtOnceThoseByASignalComeFirst) {
  for (const bool own_sessions : {true, false}) {
    JobProcesses::Options parts = options(3);
    parts.own_sessions = own_sessions;
    JobProcesses processes(parts);
    ASSERT_TRUE(processes.start(0, [] { _exit(1); }));
    ASSERT_TRUE(processes.start(1, [] { kill(getpid(), SIGKILL); }));
    ASSERT_TRUE(processes.start(2, [] { _exit(7); }));
    for (const int rank : {0, 1, 2}) {
      siginfo_t info;
      const auto process = static_cast<id_t>(processes.process(rank));
      ASSERT_EQ(waitid(P_PID, process, &info, WEXITED | WNOWAIT), 0);  // it has ended, and is not reaped
    }
    processes.attend();
    EXPECT_THAT(std::exchange(ends_, {}), ElementsAre(128 + SIGKILL, 1, 7));
  }
}

TEST_F(JobProcessesTest, HasNoProcessOfAnotherNumber) {
  JobProcesses processes(options(2));
  ASSERT_TRUE(processes.start(0, [] { pause_for_ever(); }));
  EXPECT_NE(processes.process(0), 0);
  for (const int rank : {-1, 1, 2, 77}) EXPECT_EQ(processes.process(rank), 0) << rank;
}

TEST_F(JobProcessesTest, ItsDestructorKillsTheRanks) {
  HeldPipe held;
  {
    JobProcesses processes(options(2));
    ASSERT_TRUE(processes.start(0, [&] {
      held.write_byte();
      pause_for_ever();
    }));
    held.read_byte();
  }
  EXPECT_THAT(ends_, ElementsAre(128 + SIGKILL));
  held.expect_all_ended();
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);  // the guard has gone, too
}

}  // namespace
}  // namespace stretto
