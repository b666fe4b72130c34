#include "command/machine/child_processes.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <optional>

#include "stretto/membership/job.h"

namespace stretto::command {

namespace {

TEST(BackgroundTask, HandsOverWhatTheFunctionReturns) {
  BackgroundTask task([] { return std::string(100'000, 'x'); });  // more than a pipe holds
  EXPECT_EQ(*task.wait(), std::string(100'000, 'x'));
  ASSERT_TRUE(task.poll().has_value());
  EXPECT_EQ(**task.poll(), std::string(100'000, 'x'));
  BackgroundTask nothing([] { return std::string(); });
  EXPECT_EQ(*nothing.wait(), "");
}

TEST(BackgroundTask, IsNotWaitedForWhileItWorks) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  BackgroundTask task([&] {
    char go = 0;
    return std::to_string(::read(ends[0], &go, 1));
  });
  EXPECT_FALSE(task.poll().has_value());
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  EXPECT_EQ(*task.wait(), "1");
}

TEST(BackgroundTask, SaysWhatTheFunctionHasThrown) {
  BackgroundTask task([]() -> std::string { throw UsageError("no such algorithm"); });
  EXPECT_EQ(task.wait().error().message, "no such algorithm");
  BackgroundTask killed([]() -> std::string {
    std::raise(SIGKILL);
    return {};
  });
  EXPECT_EQ(killed.wait().error().message, "its process was killed");
}

TEST(BackgroundTask, EndsWithItsOwner) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  pid_t child = 0;
  {
    const BackgroundTask task([&] {
      const pid_t self = ::getpid();
      (void)!::write(ends[1], &self, sizeof self);
      while (true) ::pause();
      return std::string();
    });
    ASSERT_EQ(::read(ends[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
  }
  EXPECT_EQ(::kill(child, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

// As the process that watches a run does: it hears signals by a descriptor meanwhile, and the task runs a job, too. The
// rank of the first job ends when the watching process has the second job's answer.
TEST(BackgroundTask, RunsAJobBesideAJob) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::optional<BackgroundTask> task;
  std::optional<Result<std::string>> answer;
  const auto watch = [&] {
    if (!task) {
      task.emplace([] {
        return run_job({.ranks = 2},
                       [](RankContext& context) {
                         context.report(std::to_string(context.rank()));
                         return 0;
                       })
            .or_throw()
            .reports[1];
      });
    }
    if (answer) return;
    answer = task->poll();
    if (answer) {
      EXPECT_EQ(::write(ends[1], "x", 1), 1);
    }
  };
  const auto result = run_job({.ranks = 1, .while_running = watch}, [&](RankContext&) {
    char byte = 0;
    return ::read(ends[0], &byte, 1) == 1 ? 0 : 1;
  });
  ASSERT_TRUE(bool(result));
  EXPECT_TRUE(result->ok());
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(**answer, "1");
}

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
