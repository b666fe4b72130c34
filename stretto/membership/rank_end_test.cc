#include "stretto/membership/rank_end.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <thread>

#include "stretto/membership/job.h"
#include "stretto/membership/testing/sleeping_thread.h"
#include "stretto/transport/testing/conformance.h"

namespace stretto {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

/// The result of run_job() and its output on stderr.
struct Told {
  JobResult result;
  std::string lines;
};

Told run(int ranks, const RankMain& main) {
  testing::internal::CaptureStderr();
  Told told{run_job({.ranks = ranks}, main).or_throw(), {}};
  told.lines = testing::internal::GetCapturedStderr();
  return told;
}

/// Waits until rank 1 is lost, and throws as a collective would.
void miss_rank_1(RankContext& context) {
  TestRank self(context.world().transport());
  self.wait([&] { return !self.lost_peers.empty(); });
  throw Failure({Errc::lost_peer, self.lost_peers[0].second, 1});
}

TEST(RankMessage, AboutAnotherRankSaysWhetherThatOneIsThere) {
  using Kind = RankMessage::Kind;
  EXPECT_EQ(message_of({Errc::lost_peer, "rank 2 is lost", 2}, 1).kind, Kind::loss);
  EXPECT_EQ(message_of({Errc::aborted, "rank 2 stops the job", 2}, 1).kind, Kind::consequence);
  EXPECT_EQ(message_of({Errc::aborted, "rank 1 stops the job", 1}, 1).kind, Kind::cause);
  EXPECT_EQ(message_of({Errc::timeout, "rank 2 has not come", 2}, 1).kind, Kind::cause);
}

TEST(RankEnd, ACauseIsToldOnceAndWhatFollowsFromItIsNot) {
  const auto told = run(4, [](RankContext& context) {
    if (context.rank() == 1) throw std::runtime_error("as this test wants it");
    miss_rank_1(context);
    return 0;
  });
  EXPECT_EQ(told.lines, "stretto: rank 1: as this test wants it\n");
  EXPECT_EQ(told.result.cause, "rank 1: as this test wants it");
  EXPECT_THAT(told.result.exit_status, Each(1));
}

TEST(RankEnd, WhatFollowsIsToldWhereNoRankSaysFromWhat) {
  const auto told = run(4, [](RankContext& context) {
    if (context.rank() == 1) return 7;
    miss_rank_1(context);
    return 0;
  });
  EXPECT_THAT(told.lines, testing::MatchesRegex("stretto: rank [023]: rank 1 is lost: ended with exit status 7\n"));
}

TEST(RankEnd, TheSameMistakeOfAllRanksIsToldOnce) {
  const auto told = run(4, [](RankContext&) -> int { throw UsageError("no such algorithm"); });
  EXPECT_THAT(told.lines, testing::MatchesRegex("stretto: rank [0-3]: no such algorithm\n"));
}

TEST(RankEnd, WhatIsNoExceptionIsToldToo) {
  EXPECT_EQ(run(1, [](RankContext&) -> int { throw 3; }).lines, "stretto: rank 0: threw what is no std::exception\n");
}

/// The other rank goes on until it hears that the loss has been told.
TEST(RankEnd, AKilledRankIsToldWhileTheOthersCompute) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  std::vector<std::string> lines;
  const auto tell = [&](const std::string& line) {
    lines.push_back(line);
    if (write(ends[1], "x", 1) != 1) std::abort();
  };
  const auto result = run_job({.ranks = 2, .tell = tell}, [&](RankContext& context) {
                        if (context.rank() == 1) kill(getpid(), SIGKILL);
                        char byte = 0;
                        return read(ends[0], &byte, 1) == 1 ? 3 : 1;
                      }).or_throw();
  EXPECT_THAT(lines, ElementsAre("rank 1 is lost: killed by SIGKILL"));
  EXPECT_THAT(result.exit_status, ElementsAre(3, 128 + SIGKILL));
  close(ends[0]), close(ends[1]);
}

TEST(RankEnd, AStatusThatIsNotZeroIsNotZeroForAParent) {
  EXPECT_EQ(process_status(0), 0);
  EXPECT_EQ(process_status(7), 7);
  EXPECT_EQ(process_status(256), 1);
  EXPECT_EQ(process_status(-1), 255);
  const auto told = run(2, [](RankContext& context) {
    if (context.rank() == 0) return 256;
    TestRank self(context.world().transport());
    self.wait([&] { return !self.lost_peers.empty(); });
    context.report(self.lost_peers[0].second);
    return 0;
  });
  EXPECT_THAT(told.result.exit_status, ElementsAre(1, 0));
  EXPECT_EQ(told.result.reports[1], "rank 0 is lost: ended with exit status 1");
}

TEST(RankEnd, ASecondReportIsAMistake) {
  const auto told = run(1, [](RankContext& context) {
    context.report("one");
    context.report("two");
    return 0;
  });
  EXPECT_THAT(told.lines, HasSubstr("rank 0 reports a second time"));
  EXPECT_THAT(told.result.exit_status, ElementsAre(1));
  EXPECT_THAT(told.result.reports, ElementsAre("one"));
}

/// How a process that this one forks here ends.
int status_of_fork(const std::function<void()>& in_child, bool& is_child) {
  const pid_t process = fork();
  is_child = process == 0;
  if (is_child) {
    in_child();
    return 0;
  }
  int status = 0;
  waitpid(process, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(RankEnd, AForkedChildThatReturnsIsNotTheRank) {
  const auto told = run(2, [](RankContext& context) {
    if (context.rank() == 1) return 0;
    bool is_child = false;
    const int status = status_of_fork([] {}, is_child);
    if (is_child) return 0;
    TestRank self(context.world().transport());
    self.wait([&] { return !self.left_peers.empty(); });
    return status == 1 ? 0 : 9;
  });
  EXPECT_THAT(told.result.exit_status, Each(0));
  EXPECT_THAT(told.lines, HasSubstr("a process that a rank has forked went on"));
}

TEST(RankEnd, AForkedChildCannotTouchTheJob) {
  const auto told = run(1, [](RankContext& context) {
    bool is_child = false;
    const int status = status_of_fork([&] { context.counter(0).fetch_add(1); }, is_child);
    return status == 1 && context.counter(0).fetch_add(0) == 0 ? 0 : 9;
  });
  EXPECT_THAT(told.result.exit_status, Each(0));
  EXPECT_THAT(told.lines, HasSubstr("a process that a rank has forked went on"));
}

TEST(RankEnd, ARankIsPreparedBeforeItsFunction) {
  int prepared = -1;
  const auto result = run_job({.ranks = 3, .prepare = [&](RankContext& context) { prepared = context.rank(); }},
                              [&](RankContext& context) { return prepared == context.rank() ? 0 : 1; })
                          .or_throw();
  EXPECT_THAT(result.exit_status, Each(0));
}

/// Marks the thread that calls run_job().
thread_local bool is_callers_thread = false;

/// A team of OpenMP threads is a thread-local pointer to threads that a forked process has not.
TEST(RunJobAmongThreads, ARankBeginsInAThreadOfItsOwn) {
  const SleepingThread other;
  is_callers_thread = true;
  const auto result = run_job({.ranks = 3}, [](RankContext&) { return is_callers_thread ? 1 : 0; }).or_throw();
  EXPECT_THAT(result.exit_status, Each(0));
}

TEST(RunJobAmongThreads, AThreadThatComputesIsRefused) {
  std::atomic<bool> over{false};
  std::thread busy([&] {
    while (!over.load()) {
    }
  });
  const auto start = [] { return run_job({.ranks = 1}, [](RankContext&) { return 0; }); };
  EXPECT_THAT([&] { (void)start(); }, testing::ThrowsMessage<UsageError>(HasSubstr("another thread of it computes")));
  over.store(true);
  busy.join();
  EXPECT_TRUE(start().or_throw().ok());
}

TEST(EndWithoutMemory, SaysItAndEndsWhereverTheMemoryIsMissed) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "NOT TESTED under sanitizers: their operator new calls no handler";
#endif
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t process = fork();
  if (process == 0) {
    end_without_memory([&ends] { static_cast<void>(::write(ends[1], "no memory", 9)); }, 7);
    // Of a thread whose function may not throw, as a destructor may not.
    static volatile std::size_t too_much = std::size_t{1} << 60;
    std::thread([]() noexcept { *static_cast<volatile char*>(::operator new(too_much)) = 1; }).join();
    _exit(0);
  }
  int status = 0;
  waitpid(process, &status, 0);
  ASSERT_TRUE(WIFEXITED(status)) << "no std::terminate()";
  EXPECT_EQ(WEXITSTATUS(status), 7);
  close(ends[1]);
  std::array<char, 32> said{};
  EXPECT_EQ(::read(ends[0], said.data(), said.size()), 9);
  EXPECT_STREQ(said.data(), "no memory");
  close(ends[0]);
}

TEST(RunJobWithoutProcesses, NamesTheLimit) {
  testing::internal::CaptureStderr();
  const pid_t process = fork();
  if (process == 0) {
    const rlimit few{1, 1};
    setrlimit(RLIMIT_NPROC, &few);
    if (geteuid() == 0 && setuid(65534) != 0) _exit(77);  // the limit does not bind root
    const auto result = run_job({.ranks = 64}, [](RankContext&) { return pause(); });
    const bool named = !result && result.error().message.find("RLIMIT_NPROC") != std::string::npos;
    _exit(named ? 0 : 1);
  }
  int status = 0;
  waitpid(process, &status, 0);
  testing::internal::GetCapturedStderr();
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "NOT TESTED: this user cannot become another one";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace stretto
