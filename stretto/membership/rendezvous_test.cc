#include "stretto/membership/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>
#include <utility>

#include "stretto/base/description.h"
#include "stretto/membership/job.h"
#include "stretto/observe/temporary_folder.h"
#include "stretto/transport/testing/conformance.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

/// A name that no other test has at the moment.
std::string fresh_job() {
  static int count = 0;
  return text("test ", getpid(), ' ', ++count);
}

/// A process, and what it has written when it has ended.
class Process {
 public:
  explicit Process(const std::function<std::string()>& main) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    process_ = fork();
    if (process_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const std::string said = main();
      _exit(write(ends[1], said.data(), said.size()) == static_cast<ssize_t>(said.size()) ? 0 : 1);
    }
    close(ends[1]);
    out_ = Descriptor(ends[0]);
  }
  pid_t id() const { return process_; }
  std::string end() {
    std::string said(4096, '\0');
    const ssize_t bytes = read(out_.get(), said.data(), said.size());
    said.resize(static_cast<std::size_t>(std::max<ssize_t>(bytes, 0)));
    waitpid(process_, nullptr, 0);
    return said;
  }

 private:
  pid_t process_ = 0;
  Descriptor out_;
};

/// What one process waits for until another one tells it. Made before that one is forked.
class Tidings {
 public:
  Tidings() {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    out_ = Descriptor(ends[0]);
    in_ = Descriptor(ends[1]);
  }
  void tell() const { EXPECT_EQ(write(in_.get(), "x", 1), 1); }
  void wait() const {
    char byte = 0;
    EXPECT_EQ(read(out_.get(), &byte, 1), 1);
  }

 private:
  Descriptor out_, in_;
};

/// Has a rank tell that it waits for the others. Rank 0 does so when its door is open, and another rank when it has
/// greeted rank 0. Requires, of another rank: rank 0's door is open when it comes.
RendezvousOptions telling(RendezvousOptions options, const Tidings& waits) {
  options.look = [&waits, told = false]() mutable {
    if (!std::exchange(told, true)) waits.tell();
  };
  return options;
}

/// A rank that meets with these options. Says "met", or the error.
Process meeting(const RendezvousOptions& options) {
  return Process([&options] {
    const auto met = meet(options);
    return met ? "met" : text(name_of(met.error().code), ": ", met.error().message);
  });
}

std::vector<std::string> ends_of(std::vector<Process>& processes) {
  std::vector<std::string> out;
  for (Process& process : processes) out.push_back(process.end());
  return out;
}

/// What becomes of ranks that meet with these options, each in a process of its own: "met", or the error.
std::vector<std::string> meet_all(const std::vector<RendezvousOptions>& ranks) {
  std::vector<Process> processes;
  for (const RendezvousOptions& options : ranks) processes.push_back(meeting(options));
  return ends_of(processes);
}

std::vector<RendezvousOptions> options_of(int ranks) {
  const std::string job = fresh_job();
  std::vector<RendezvousOptions> out;
  for (int rank = 0; rank < ranks; ++rank) {
    out.push_back({.rank = rank, .ranks = ranks, .job = job, .version = "stretto 1", .timeout = 30s});
  }
  return out;
}

TEST(Rendezvous, AllMeet) {
  EXPECT_THAT(meet_all(options_of(1)), Each("met"));
  EXPECT_THAT(meet_all(options_of(2)), Each("met"));
  EXPECT_THAT(meet_all(options_of(17)), Each("met"));
}

TEST(Rendezvous, AllMeetAtASocketWithAFileWhichIsGoneAfterwards) {
  const TemporaryFolder folder;
  auto options = options_of(5);
  for (auto& rank : options) rank.folder = folder.path();
  EXPECT_THAT(meet_all(options), Each("met"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Rendezvous, TheMemoryIsTheSameAndAllHaveEntered) {
  const auto options = options_of(3);
  std::vector<Process> processes;
  for (const RendezvousOptions& of_rank : options) {
    processes.emplace_back([&of_rank] {
      auto meeting = meet(of_rank).or_throw();
      std::string out;
      for (int rank = 0; rank < 3; ++rank) out += meeting.memory.process(rank) != 0 ? "entered " : "missing ";
      meeting.memory.counter(0).fetch_add(1);
      while (meeting.memory.counter(0).load() < 3) std::this_thread::sleep_for(1ms);
      return out;
    });
  }
  for (Process& process : processes) EXPECT_EQ(process.end(), "entered entered entered ");
}

/// Rank 0 is held up until the others that come have greeted it, which is when its time is over.
TEST(Rendezvous, ARankThatDoesNotComeIsNamedOnAllThatHaveCome) {
  const auto meet_without = [](const std::vector<int>& missing) {
    auto options = options_of(5);
    std::erase_if(options, [&](const RendezvousOptions& rank) { return std::ranges::count(missing, rank.rank) > 0; });
    const Tidings rank0_waits, greeted;
    RendezvousOptions rank0 = telling(options[0], rank0_waits);
    rank0.timeout = 1ms;
    rank0.look = [look = rank0.look, &greeted, others = options.size() - 1]() mutable {
      look();
      for (; others > 0; --others) greeted.wait();
    };
    options.erase(options.begin());
    std::vector<Process> processes;
    processes.push_back(meeting(rank0));
    rank0_waits.wait();
    for (RendezvousOptions& rank : options) processes.push_back(meeting(telling(rank, greeted)));
    return ends_of(processes);
  };
  EXPECT_THAT(meet_without({2}), Each("timeout: rank 2 has not come within 0.001 s"));
  EXPECT_THAT(meet_without({1, 2}), Each("timeout: ranks 1 and 2 have not come within 0.001 s"));
}

TEST(Rendezvous, WithoutRankZeroTheOthersSayThatItIsMissing) {
  auto options = options_of(3);
  for (auto& rank : options) rank.timeout = 200ms;
  options.erase(options.begin());
  EXPECT_THAT(meet_all(options), Each(HasSubstr("timeout: rank 0 has not come within 0.2 s (it opens @stretto-")));
}

TEST(Rendezvous, WhatDiffersIsToldOnAllWithBothValues) {
  auto versions = options_of(3);
  versions[1].version = "stretto 2";
  EXPECT_THAT(meet_all(versions), Each("bad_input: rank 1 has stretto 2, rank 0 stretto 1"));
  auto sizes = options_of(3);
  sizes[2].ranks = 4;
  EXPECT_THAT(meet_all(sizes), Each("bad_input: rank 2 has 4 ranks in its job, rank 0 3"));
}

TEST(Rendezvous, TheSameRankTwiceIsToldWithBothProcesses) {
  auto options = options_of(4);
  options[3].rank = 2;
  EXPECT_THAT(meet_all(options), Each(HasSubstr("bad_input: two processes are rank 2: ")));
}

TEST(Rendezvous, ASecondRankZeroIsToldWhoIsThere) {
  const auto options = options_of(2);
  const Tidings first_waits;
  Process first([&] { return meet(telling(options[0], first_waits)) ? "met" : "apart"; });
  first_waits.wait();
  Process second([&] {
    const auto meeting = meet(options[0]);
    return meeting ? std::string("met") : meeting.error().message;
  });
  EXPECT_THAT(second.end(), AllOf(HasSubstr(text("process ", first.id())), HasSubstr("rank 0 of this job already")));
  EXPECT_TRUE(meet(options[1]).ok());
  EXPECT_EQ(first.end(), "met");
}

/// Has taken the address of a job and does not listen at it yet, as rank 0 between two calls of the system.
class AtTheDoor {
 public:
  explicit AtTheDoor(const RendezvousOptions& options) : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    char name[64];
    const int length = std::snprintf(name, sizeof(name), "stretto-%016llx",
                                     static_cast<unsigned long long>(hash_of(text(getuid(), '\n', options.job))));
    std::memcpy(address.sun_path + 1, name, static_cast<std::size_t>(length));
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<std::size_t>(length));
    EXPECT_EQ(bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), bytes), 0);
  }
  void listen() const { EXPECT_EQ(::listen(socket_.get(), 8), 0); }

 private:
  Descriptor socket_;
};

TEST(Rendezvous, ARankZeroThatDoesNotListenYetIsWaitedFor) {
  const auto options = options_of(2);
  const AtTheDoor first(options[0]);
  Process second = meeting(options[0]);
  first.listen();
  EXPECT_THAT(second.end(), HasSubstr(text("process ", getpid(), " of user ")));
}

TEST(Rendezvous, AnAddressWhereNobodyListensIsNoProcessOfNumber0) {
  const auto options = options_of(2);
  const AtTheDoor first(options[0]);
  EXPECT_THAT(meeting(options[0]).end(), HasSubstr("bad_input: another process is rank 0 of this job already, at @"));
}

TEST(Rendezvous, ARankThatEndsMeanwhileIsNamed) {
  const auto options = options_of(3);
  const Tidings rank0_waits, rank1_waits;
  Process rank0([&] {
    const auto meeting = meet(telling(options[0], rank0_waits));
    return meeting ? std::string("met") : meeting.error().message;
  });
  rank0_waits.wait();
  Process rank1([&] { return meet(telling(options[1], rank1_waits)) ? "met" : "apart"; });
  rank1_waits.wait();
  kill(rank1.id(), SIGKILL);
  EXPECT_EQ(rank1.end(), "");
  EXPECT_EQ(rank0.end(), "rank 1 has ended while the ranks met");
}

TEST(Rendezvous, WhatIsNoGreetingIsNotLetIn) {
  const TemporaryFolder folder;
  auto options = options_of(2);
  for (auto& rank : options) rank.folder = folder.path();
  Process rank0([&] { return meet(options[0]) ? "met" : "apart"; });
  while (std::filesystem::is_empty(folder.path())) std::this_thread::sleep_for(1ms);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = std::filesystem::directory_iterator(folder.path())->path();
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  std::vector<Descriptor> strangers;
  for (const std::size_t bytes : {1, 16, 80, 5000}) {
    strangers.emplace_back(socket(AF_UNIX, SOCK_SEQPACKET, 0));
    while (connect(strangers.back().get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      ASSERT_EQ(errno, ECONNREFUSED);  // it is bound and does not listen yet
    }
    const std::string garbage(bytes, 'x');
    ASSERT_EQ(send(strangers.back().get(), garbage.data(), bytes, 0), static_cast<ssize_t>(bytes));
  }
  EXPECT_TRUE(meet(options[1]).ok());
  EXPECT_EQ(rank0.end(), "met");
}

TEST(Rendezvous, TheFileOfAKilledJobIsNoHindrance) {
  const TemporaryFolder folder;
  auto options = options_of(2);
  for (auto& rank : options) rank.folder = folder.path();
  Process killed([&] { return meet(options[0]) ? "met" : "apart"; });
  while (std::filesystem::is_empty(folder.path())) std::this_thread::sleep_for(1ms);
  kill(killed.id(), SIGKILL);
  killed.end();
  EXPECT_FALSE(std::filesystem::is_empty(folder.path()));
  EXPECT_THAT(meet_all(options), Each("met"));
}

TEST(Rendezvous, RefusesWhatCannotBe) {
  EXPECT_THROW((void)meet({.rank = 3, .ranks = 3}), UsageError);
  EXPECT_THROW((void)meet({.rank = -1, .ranks = 3}), UsageError);
  EXPECT_THROW((void)meet({.rank = 0, .ranks = 0}), UsageError);
  EXPECT_THROW((void)meet({.ranks = 2, .folder = std::string(200, 'f')}), UsageError);
  EXPECT_EQ(meet({.ranks = 2, .folder = "/nowhere"}).error().code, Errc::io);
}

struct Interrupt final : std::exception {};

/// Is called ten times, and then throws.
std::function<void()> ten_looks() {
  return [looks = 0]() mutable {
    if (++looks > 10) throw Interrupt();
  };
}

TEST(Rendezvous, CanBeInterruptedAndLeavesNoSocketBehind) {
  const TemporaryFolder folder;
  for (const std::string& place : {std::string(), folder.path()}) {
    auto options = options_of(3);
    for (auto& rank : options) rank.folder = place;
    for (const std::size_t interrupted : {0, 1}) {  // and rank 2 never comes
      Process waits([&] { return name_of(meet(options[1 - interrupted]).error().code); });
      RendezvousOptions mine = options[interrupted];
      mine.look = ten_looks();
      EXPECT_THROW((void)meet(mine), Interrupt);
      EXPECT_EQ(waits.end(), "lost_peer");
    }
    RendezvousOptions alone = options[1];
    alone.look = ten_looks();
    EXPECT_THROW((void)meet(alone), Interrupt) << "rank 0 has not come";
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
    EXPECT_THAT(meet_all(options), Each("met"));
  }
}

/// A rank of a job that has been joined: what its function returns, and on rank 0 what the others have reported.
std::string joined(const JoinOptions& options, const std::function<void(RankContext&)>& main) {
  auto rank = join_job(options).or_throw();
  main(rank.context());
  const JobResult result = rank.leave();
  std::string out;
  for (std::size_t i = 0; i < result.reports.size(); ++i) {
    out += text(result.exit_status[i], ':', result.reports[i].size(), ' ');
  }
  return out;
}

TEST(JoinJob, RanksSendAndReport) {
  const std::string job = fresh_job();
  std::vector<Process> processes;
  for (int rank = 0; rank < 3; ++rank) {
    processes.emplace_back([&job, rank] {
      return joined({.rank = rank, .ranks = 3, .job = job, .extra_bytes = 8}, [&](RankContext& context) {
        TestRank self(context.world().transport());
        for (int peer = 0; peer < 3; ++peer) {
          if (peer != rank) self.send(peer, 8, 100'000);
        }
        self.wait([&] { return self.received() == 2; });
        self.wait_for_sends();
        context.report(std::string(static_cast<std::size_t>(rank) * 200'000 + context.extra().size(), 'r'));
      });
    });
  }
  EXPECT_EQ(processes[2].end(), "0:0 0:0 0:0 ");
  EXPECT_EQ(processes[1].end(), "0:0 0:0 0:0 ");
  EXPECT_EQ(processes[0].end(), "0:8 0:200008 0:400008 ");
}

TEST(JoinJob, ARankThatDoesNotSayGoodbyeIsLost) {
  const std::string job = fresh_job();
  Process first([&] { return joined({.rank = 0, .ranks = 3, .job = job}, [](RankContext&) {}); });
  Process killed([&] {
    auto rank = join_job({.rank = 1, .ranks = 3, .job = job}).or_throw();
    raise(SIGKILL);
    return std::string();
  });
  Process dropped([&] {
    { auto rank = join_job({.rank = 2, .ranks = 3, .job = job}).or_throw(); }
    return std::string("dropped");
  });
  EXPECT_EQ(dropped.end(), "dropped");
  EXPECT_EQ(killed.end(), "");
  EXPECT_EQ(first.end(), "0:0 1:0 1:0 ");
}

TEST(JoinJob, Rank0WaitsForTheEndsOfTheOthersAsLongAsItIsToldTo) {
  for (const bool interrupted : {false, true}) {
    const std::string job = fresh_job();
    Process stays([&] {
      auto rank = join_job({.rank = 1, .ranks = 2, .job = job}).or_throw();
      pause();
      return "";
    });
    bool wanted = false;
    const auto look = [&] {
      if (wanted) throw Interrupt();
    };
    auto rank = join_job({.rank = 0, .ranks = 2, .job = job, .look = look}).or_throw();
    wanted = interrupted;
    if (interrupted) {
      EXPECT_THROW(rank.leave(), Interrupt);
    } else {
      EXPECT_THAT(rank.leave(200ms).exit_status, ElementsAre(0, 1));
    }
    EXPECT_THROW(rank.leave(), UsageError);
    kill(stays.id(), SIGKILL);
    stays.end();
  }
}

}  // namespace
}  // namespace stretto
