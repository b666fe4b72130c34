#include "stretto/membership/processes/job_signals.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "stretto/membership/processes/job_processes.h"

namespace stretto {
namespace {

/// The exit status of a process that calls `live`, as shells have it. SIGTERM has its default action there.
int status_of_process(const std::function<int()>& live) {
  const pid_t process = fork();
  if (process == 0) {
    alarm(60);
    std::signal(SIGTERM, SIG_DFL);
    _exit(live());
  }
  int status = 0;
  waitpid(process, &status, 0);
  return exit_status_of(status);
}

TEST(LeaveNotice, TheFirstSigtermIsOneAndTheSecondEndsTheProcess) {
  EXPECT_EQ(status_of_process([] {
              const LeaveNotice notice(0);
              const bool before = notice.has_come();
              raise(SIGTERM);
              return !before && notice.has_come() ? 7 : 8;
            }),
            7);
  EXPECT_EQ(status_of_process([] {
              const LeaveNotice notice(0);
              raise(SIGTERM);
              raise(SIGTERM);
              return 7;
            }),
            128 + SIGTERM);
}

TEST(LeaveNotice, ThatOfTheStarterIsNone) {
  EXPECT_EQ(status_of_process([] {
              const LeaveNotice notice(getpid());
              raise(SIGTERM);
              return 7;
            }),
            128 + SIGTERM);
}

TEST(LeaveNotice, AProgramKeepsAnActionOfItsOwn) {
  EXPECT_EQ(status_of_process([] {
              std::signal(SIGTERM, SIG_IGN);
              {
                const LeaveNotice notice(0);
                raise(SIGTERM);
                raise(SIGTERM);
                if (notice.has_come()) return 8;
                std::signal(SIGTERM, [](int) { _exit(7); });
              }
              raise(SIGTERM);
              return 9;
            }),
            7);
}

TEST(LeaveNotice, AProcessThatWasForkedEnds) {
  EXPECT_EQ(status_of_process([] {
              const LeaveNotice notice(0);
              const int status = [] {
                const pid_t child = fork();
                if (child == 0) {
                  raise(SIGTERM);
                  _exit(9);
                }
                int wait_status = 0;
                waitpid(child, &wait_status, 0);
                return exit_status_of(wait_status);
              }();
              return status == 128 + SIGTERM && !notice.has_come() ? 7 : 8;
            }),
            7);
}

TEST(LeaveNotice, ItsEndGivesTheSignalBack) {
  EXPECT_EQ(status_of_process([] {
              { const LeaveNotice notice(0); }
              raise(SIGTERM);
              return 7;
            }),
            128 + SIGTERM);
  EXPECT_EQ(status_of_process([] {
              const LeaveNotice notice(0);
              notice.end();
              raise(SIGTERM);
              return 7;
            }),
            128 + SIGTERM);
}

TEST(ParentOf, IsThatOfAnyProcess) {
  EXPECT_EQ(parent_of(getpid()), getppid());
  EXPECT_EQ(parent_of(-5), 0);
}

}  // namespace
}  // namespace stretto
