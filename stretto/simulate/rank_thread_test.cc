#include "stretto/simulate/rank_thread.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <list>

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

}  // namespace
}  // namespace stretto
