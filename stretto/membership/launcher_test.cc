#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "stretto/base/machine/process_limits.h"
#include "stretto/engine/engine.h"
#include "stretto/membership/changes.h"
#include "stretto/membership/job.h"
#include "stretto/membership/testing/sleeping_thread.h"
#include "stretto/transport/job_memory.h"
#include "stretto/transport/testing/conformance.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using testing::Each;
using testing::ElementsAre;

constexpr int kMillisecondsToWait = 10'000;

/// Of jobs: other programs, and tests that read mutated files, have theirs beside it.
std::set<std::string> named_shared_memory() {
  std::set<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename();
    if (name.starts_with("stretto") && !name.starts_with("stretto-fuzz-")) out.insert(name);
  }
  return out;
}

/// Sleeps until a signal ends the process.
int sleep_for_ever() {
  while (true) pause();
}

/// A process that is no rank: ends with the return value of `main`.
pid_t fork_helper(const std::function<int()>& main) {
  std::fflush(nullptr);
  const pid_t process = fork();
  if (process == 0) {
    const int status = main();
    std::fflush(nullptr);
    _exit(status);
  }
  return process;
}

int wait_for(pid_t process) {
  int status = 0;
  EXPECT_EQ(waitpid(process, &status, 0), process);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/// Process ids on their way from ranks to the test.
class ProcessIds {
 public:
  ProcessIds() { EXPECT_EQ(pipe(ends_.data()), 0); }
  ~ProcessIds() { close(ends_[0]), close(ends_[1]); }

  void tell() const {
    const pid_t self = getpid();
    if (write(ends_[1], &self, sizeof(self)) != sizeof(self)) std::abort();
  }
  /// A descriptor of each of the next `count` processes.
  std::vector<int> take(int count) const {
    std::vector<int> out;
    for (int i = 0; i < count; ++i) {
      pid_t process = 0;
      EXPECT_EQ(read(ends_[0], &process, sizeof(process)), static_cast<ssize_t>(sizeof(process)));
      out.push_back(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
      EXPECT_GE(out.back(), 0);
    }
    return out;
  }

 private:
  std::array<int, 2> ends_{};
};

void expect_end(const std::vector<int>& processes) {
  for (const int process : processes) {
    pollfd look{process, POLLIN, 0};
    EXPECT_EQ(poll(&look, 1, kMillisecondsToWait), 1) << "a rank is still there";
    close(process);
  }
}

class LauncherConformance : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(LauncherConformance, Passes) {
  const auto& [test, ranks] = GetParam();
  const auto result = run_job({.ranks = ranks}, [test = test](RankContext& context) {
                        conformance_cases()[static_cast<std::size_t>(test)].run(context.world().transport());
                        return 0;
                      }).or_throw();
  EXPECT_TRUE(result.ok());
  EXPECT_THAT(result.exit_status, Each(0));
  EXPECT_EQ(result.first_lost, -1);
}

INSTANTIATE_TEST_SUITE_P(Shm, LauncherConformance,
                         testing::Combine(testing::Range(0, static_cast<int>(conformance_cases().size())),
                                          testing::Values(1, 3, 8)),
                         [](const auto& info) {
                           return text(conformance_cases()[static_cast<std::size_t>(std::get<0>(info.param))].name, "_",
                                       std::get<1>(info.param));
                         });

TEST(RunJob, GivesEachRankItsPlaceAndSharesTheRest) {
  const auto result = run_job({.ranks = 5, .extra_bytes = 5}, [](RankContext& context) {
                        context.counter(2).fetch_add(1);
                        context.extra()[static_cast<std::size_t>(context.rank())] = std::byte{1};
                        TestRank self(context.world().transport());
                        for (int peer = 0; peer < 5; ++peer) {
                          if (peer != context.rank()) self.send(peer, 0, 0);
                        }
                        self.wait([&] { return self.received() == 4; });
                        bool right = context.size() == 5 && context.counter(2).fetch_add(0) == 5;
                        for (const std::byte byte : context.extra()) right &= byte == std::byte{1};
                        context.report(text("rank ", context.rank()));
                        return right ? 0 : 1;
                      }).or_throw();
  EXPECT_THAT(result.exit_status, Each(0));
  EXPECT_THAT(result.reports, ElementsAre("rank 0", "rank 1", "rank 2", "rank 3", "rank 4"));
}

TEST(RunJob, TakesReportsOfAnySize) {
  const std::array<std::size_t, 6> sizes{0, 1, 7, 65536, 300'000, 20'000'000};
  const auto result = run_job({.ranks = 6}, [&](RankContext& context) {
                        const auto rank = static_cast<std::size_t>(context.rank());
                        context.report(std::string(sizes[rank], static_cast<char>('a' + rank)));
                        return 0;
                      }).or_throw();
  for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
    EXPECT_TRUE(result.reports[rank] == std::string(sizes[rank], static_cast<char>('a' + rank))) << rank;
  }
}

TEST(RunJob, HalfAReportIsNone) {
  const auto result = run_job({.ranks = 1}, [&](RankContext& context) {
                        const std::string report(256 << 20, 'x');
                        const itimerval soon{{}, {0, 5000}};
                        setitimer(ITIMER_REAL, &soon, nullptr);
                        context.report(report);
                        return 0;
                      }).or_throw();
  EXPECT_THAT(result.exit_status, ElementsAre(128 + SIGALRM));
  EXPECT_EQ(result.reports[0], "");
}

TEST(RunJob, HandsOnWhatRanksReturnAndThrow) {
  const auto result = run_job({.ranks = 3}, [](RankContext& context) {
                        if (context.rank() == 1) throw std::runtime_error("as this test wants it");
                        return context.rank() == 2 ? 3 : 0;
                      }).or_throw();
  EXPECT_THAT(result.exit_status, ElementsAre(0, 1, 3));
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.first_lost, -1);
}

/// One rank is killed in the middle of a large message; the others hear of it at once and end by themselves.
TEST(RunJob, AKilledRankIsNoticedByTheOthers) {
  const auto result = run_job({.ranks = 4}, [](RankContext& context) {
                        TestRank self(context.world().transport());
                        if (context.rank() == 2) {
                          for (int peer : {0, 1, 3}) self.send(peer, 8, 64 << 20);
                          kill(getpid(), SIGKILL);
                        }
                        self.send(2, 8, 64 << 20);
                        self.wait([&] { return !self.lost_peers.empty() && self.unsent() == 0; });
                        const auto& [peer, message] = self.lost_peers[0];
                        context.report(message);
                        return peer == 2 && self.in_body(2) ? 3 : 1;
                      }).or_throw();
  EXPECT_THAT(result.exit_status, ElementsAre(3, 3, 128 + SIGKILL, 3));
  EXPECT_EQ(result.first_lost, 2);
  EXPECT_EQ(result.reports[0], "rank 2 is lost: killed by SIGKILL");
  EXPECT_EQ(result.reports[2], "");
}

/// A rank is killed somewhere in a storm of messages, at a place drawn from the seed; ranks that end because of it come
/// later.
TEST(RunJob, WheneverARankIsKilledItIsTheFirstOneLost) {
  constexpr int kRanks = 4;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const int victim = static_cast<int>(seed % kRanks);
    const auto result = run_job({.ranks = kRanks}, [&](RankContext& context) {
                          TestRank self(context.world().transport());
                          std::uint64_t left = seed * seed * 5 + 1;
                          self.on_message = [&](int peer, const Envelope& envelope) {
                            if (context.rank() == victim && --left == 0) kill(getpid(), SIGKILL);
                            self.send(peer, 8, (envelope.body_bytes * 5 + 77) % 50'000);
                          };
                          for (int peer = 0; peer < kRanks; ++peer) {
                            if (peer != context.rank()) self.send(peer, 0, 100);
                          }
                          self.wait([&] { return !self.lost_peers.empty(); });
                          return self.lost_peers[0].first == victim ? 3 : 1;
                        }).or_throw();
    std::vector<int> expected(kRanks, 3);
    expected[static_cast<std::size_t>(victim)] = 128 + SIGKILL;
    EXPECT_EQ(result.exit_status, expected) << "seed " << seed;
    EXPECT_EQ(result.first_lost, victim) << "seed " << seed;
  }
}

TEST(RunJob, ARankThatFailsIsLostForTheOthers) {
  const auto result = run_job({.ranks = 2}, [](RankContext& context) {
                        if (context.rank() == 0) return 7;
                        TestRank self(context.world().transport());
                        self.wait([&] { return !self.lost_peers.empty(); });
                        context.report(self.lost_peers[0].second);
                        return 0;
                      }).or_throw();
  EXPECT_THAT(result.exit_status, ElementsAre(7, 0));
  EXPECT_EQ(result.reports[1], "rank 0 is lost: ended with exit status 7");
  EXPECT_EQ(result.first_lost, -1);
}

/// Notes which peers are gone, and the errors that name them.
struct Mourner final : EngineClient {
  void control(int, const Envelope&, std::span<const std::byte>) override {}
  void lost(int, const Error& reason) override { told.push_back(reason.message); }
  void left(int, const Error& reason) override { told.push_back(reason.message); }
  void broken(const Error&) override {}
  bool poll(TimePoint) override { return false; }

  std::vector<std::string> told;
};

/// A collective hears which ranks are gone, also one that is made afterwards.
TEST(RunJob, ARankThatReturnsIsSaidToHaveLeft) {
  const auto result = run_job({.ranks = 3}, [](RankContext& context) {
                        if (context.rank() != 0) return context.rank() == 1 ? 0 : 7;
                        const SteadyClock clock;
                        Engine engine(context.world().transport(), clock);
                        Mourner early, late;
                        engine.add(early);
                        while (early.told.size() < 2) engine.step();
                        engine.add(late);
                        engine.step();
                        context.report(early.told[0] + "; " + early.told[1]);
                        return early.told == late.told ? 0 : 1;
                      }).or_throw();
  EXPECT_THAT(result.exit_status, ElementsAre(0, 0, 7));
  EXPECT_THAT(result.reports[0], testing::HasSubstr("rank 1 has left"));
  EXPECT_THAT(result.reports[0], testing::HasSubstr("rank 2 is lost: ended with exit status 7"));
}

TEST(RunJob, RanksThatDoNotCareForALostOneAreEnded) {
  const auto result = run_job({.ranks = 3, .grace_after_loss = 50ms}, [](RankContext& context) {
                        if (context.rank() == 0) kill(getpid(), SIGUSR1);
                        return sleep_for_ever();
                      }).or_throw();
  EXPECT_THAT(result.exit_status, ElementsAre(128 + SIGUSR1, 128 + SIGKILL, 128 + SIGKILL));
  EXPECT_EQ(result.first_lost, 0);
}

TEST(RunJob, CallsBackWhileTheRanksRun) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  int calls = 0;
  const auto result = run_job({.ranks = 1,
                               .while_running =
                                   [&] {
                                     if (++calls == 3 && write(ends[1], "x", 1) != 1) std::abort();
                                   }},
                              [&](RankContext&) {
                                char byte = 0;
                                return read(ends[0], &byte, 1) == 1 && byte == 'x' ? 0 : 1;
                              })
                          .or_throw();
  EXPECT_TRUE(result.ok());
  EXPECT_GE(calls, 3);
  close(ends[0]);
  close(ends[1]);
}

TEST(RunJob, FlushesWhatARankPrintsOnce) {
  testing::internal::CaptureStdout();
  std::printf("before;");
  std::cout << "too;";
  ASSERT_TRUE(run_job({.ranks = 1}, [](RankContext&) {
                std::printf("inside;");
                std::cout << "as well;";
                return 0;
              }).ok());
  std::fflush(nullptr);
  std::cout.flush();
  const std::string out = testing::internal::GetCapturedStdout();
  EXPECT_EQ(out.size(), std::string("before;too;inside;as well;").size()) << out;
}

TEST(RunJob, SaysHowMuchSharedMemoryItNeeds) {
  const JobOptions options{.ranks = 4, .extra_bytes = 1 << 20};
  setenv("STRETTO_SHM_LIMIT", "100000", 1);
  const auto result = run_job(options, [](RankContext&) { return 0; });
  unsetenv("STRETTO_SHM_LIMIT");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, Errc::unavailable);
  EXPECT_NE(result.error().message.find(format_bytes(job_memory_bytes(options))), std::string::npos)
      << result.error().message;
}

TEST(RunJob, RefusesRanksItCannotStart) {
  EXPECT_THROW((void)run_job({.ranks = 0}, [](RankContext&) { return 0; }), UsageError);
  EXPECT_THROW((void)run_job({.ranks = -3}, [](RankContext&) { return 0; }), UsageError);
}

TEST(RunJob, NothingIsLeftWhenTheParentIsKilled) {
  const auto before = named_shared_memory();
  const ProcessIds ids;
  const pid_t parent = fork_helper([&] {
    (void)run_job({.ranks = 3}, [&](RankContext&) {
      ids.tell();
      return sleep_for_ever();
    });
    return 0;
  });
  const auto ranks = ids.take(3);
  kill(parent, SIGKILL);
  EXPECT_EQ(wait_for(parent), 128 + SIGKILL);
  expect_end(ranks);
  EXPECT_EQ(named_shared_memory(), before);
}

class RunJobInterrupted : public testing::TestWithParam<int> {};

TEST_P(RunJobInterrupted, EndsItsRanksAndRestoresTheSignals) {
  const auto before = named_shared_memory();
  const ProcessIds ids;
  const pid_t parent = fork_helper([&] {
    const auto result = run_job({.ranks = 3}, [&](RankContext&) {
      ids.tell();
      return sleep_for_ever();
    });
    sigset_t blocked;
    sigprocmask(SIG_SETMASK, nullptr, &blocked);
    const bool restored =
        !sigismember(&blocked, SIGINT) && !sigismember(&blocked, SIGTERM) && !sigismember(&blocked, SIGCHLD);
    const bool right = result->interrupted && !result->ok() && result->first_lost == -1 && restored &&
                       result->exit_status == std::vector<int>(3, 128 + SIGTERM);
    return right ? 130 : 1;
  });
  const auto ranks = ids.take(3);
  kill(parent, GetParam());
  expect_end(ranks);
  EXPECT_EQ(wait_for(parent), 130);
  EXPECT_EQ(named_shared_memory(), before);
}

INSTANTIATE_TEST_SUITE_P(Signals, RunJobInterrupted, testing::Values(SIGINT, SIGTERM, SIGHUP, SIGQUIT));

/// Interrupts a job whose ranks wait for SIGTERM and end in order. Returns the status of the process that started it.
int interrupt_ranks_that_end_in_order(bool among_threads) {
  const ProcessIds ids;
  const pid_t parent = fork_helper([&] {
    setpgid(0, 0);
    std::optional<SleepingThread> other;
    if (among_threads) other.emplace();
    const auto result = run_job({.ranks = 2}, [&](RankContext& context) {
      sigset_t wanted;
      sigemptyset(&wanted);
      sigaddset(&wanted, SIGTERM);
      sigprocmask(SIG_BLOCK, &wanted, nullptr);
      ids.tell();
      int signal = 0;
      sigwait(&wanted, &signal);
      context.report("in order");
      return context.interrupted() ? 0 : 1;
    });
    return result->interrupted && result->reports == std::vector<std::string>(2, "in order") ? 99 : 1;
  });
  const auto ranks = ids.take(2);
  kill(-parent, SIGINT);
  expect_end(ranks);
  return wait_for(parent);
}

/// Ctrl-C on a terminal reaches all processes; the ranks leave the decision to the parent, and see why it is over.
TEST(RunJob, ARankMayEndInOrderAfterAnInterrupt) {
  EXPECT_EQ(interrupt_ranks_that_end_in_order(false), 99);
}

/// There a rank lives in a thread of its own: a signal must find that one, not the thread that has forked.
TEST(RunJob, ARankStartedAmongThreadsMayEndInOrderAfterAnInterrupt) {
  EXPECT_EQ(interrupt_ranks_that_end_in_order(true), 99);
}

TEST(RunJob, AStubbornRankIsKilledAfterAnInterrupt) {
  const ProcessIds ids;
  const pid_t parent = fork_helper([&] {
    const auto result = run_job({.ranks = 1, .grace_after_interrupt = 50ms}, [&](RankContext&) {
      std::signal(SIGTERM, SIG_IGN);
      ids.tell();
      return sleep_for_ever();
    });
    return result->interrupted && result->exit_status[0] == 128 + SIGKILL ? 130 : 1;
  });
  const auto ranks = ids.take(1);
  kill(parent, SIGTERM);
  expect_end(ranks);
  EXPECT_EQ(wait_for(parent), 130);
}

/// The first view waits ten seconds for one that has not come.
TEST(RunJob, ARankThatHasNotComeEndsWithTheJobOfTheOthers) {
  std::vector<std::string> lines;
  const auto result = run_job({.ranks = 2,
                               .least = 1,
                               .tell = [&lines](const std::string& line) { lines.push_back(line); },
                               .grace_after_loss = 50ms},
                              [](RankContext& rank) {
                                Changes& members = *rank.changes();
                                if (members.number() == 1) return sleep_for_ever();
                                (void)rank.world();
                                return members.begin() && members.finish() ? 0 : 1;
                              });
  EXPECT_THAT(lines, ElementsAre("rank 1 has not come to the job, which has ended: it is ended, too"));
  EXPECT_TRUE(result->ok());
  EXPECT_THAT(result->exit_status, ElementsAre(0, 128 + SIGKILL));
}

TEST(RunJob, EndsTheRanksThatRunWhenNotAllCanBeStarted) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "NOT TESTED under sanitizers: they need descriptors of their own to look at an object";
#endif
  const ProcessIds ids;
  const pid_t parent = fork_helper([&] {
    const rlimit few{24, 24};  // descriptors: enough for some ranks
    setrlimit(RLIMIT_NOFILE, &few);
    bool told = false;
    const auto result = run_job({.ranks = 64, .tell = [&told](const std::string&) { told = true; }},
                                [&](RankContext&) { return sleep_for_ever(); });
    if (told) return 2;  // the ranks that are killed are no reason
    return !result && result.error().code == Errc::io && result.error().rank > 0 && waitpid(-1, nullptr, 0) < 0 ? 0 : 1;
  });
  EXPECT_EQ(wait_for(parent), 0);
}

}  // namespace
}  // namespace stretto
