#include "stretto/membership/changing_rank.h"

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/descriptor.h"
#include "stretto/base/error.h"
#include "stretto/base/machine/process_limits.h"
#include "stretto/base/random.h"
#include "stretto/base/words.h"
#include "stretto/membership/changes.h"
#include "stretto/membership/hosts/testing/cutting_proxy.h"
#include "stretto/membership/masters/job_master.h"
#include "stretto/observe/temporary_folder.h"
#include "stretto/transport/job_memory.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using testing::MatchesRegex;

/// The exit status of a rank: its expectations fail in a process of its own, of which the test sees no more than that.
int status_of_expectations() {
  return testing::Test::HasFailure() ? 1 : 0;
}

/// Sends a number to every rank of its world, and adds up those that come.
class Sum final : public EngineClient {
 public:
  Sum(Engine& engine, std::uint64_t mine) : engine_(engine), mine_(mine), total_(mine) {
    const Engine::Pause pause(engine);
    id_ = engine.add(*this);
  }
  ~Sum() override { engine_.remove(id_); }
  Sum(const Sum&) = delete;
  Sum& operator=(const Sum&) = delete;

  bool done() const { return come_.load() == engine_.size() - 1; }
  std::uint64_t total() const { return total_.load(); }

 private:
  bool poll(TimePoint) override {
    if (std::exchange(said_, true)) return false;
    for (int peer = 0; peer < engine_.size(); ++peer) {
      if (peer != engine_.rank()) engine_.send_control(id_, peer, kControlChannel, 0, mine_, {});
    }
    return true;
  }
  void control(int, const Envelope& envelope, std::span<const std::byte>) override {
    total_.fetch_add(envelope.note);
    come_.fetch_add(1);
  }
  void lost(int, const Error&) override {}
  void broken(const Error& reason) override { FAIL() << reason.message; }

  Engine& engine_;
  const std::uint64_t mine_;
  CollectiveId id_ = 0;
  bool said_ = false;
  std::atomic<int> come_{0};
  std::atomic<std::uint64_t> total_;
};

/// The sum over the ranks of the present world; nothing: it has stopped.
std::optional<std::uint64_t> sum_over_world(RankContext& rank, std::uint64_t mine) {
  Driver& driver = rank.world().driver();
  Sum sum(rank.world().engine(), mine);
  for (;;) {
    if (driver.wait([&] { return sum.done(); }, driver.deadline(100ms))) return sum.total();
    if (rank.changes()->changing()) return std::nullopt;
  }
}

/// What a member does in these tests: in each world it adds up the numbers of its members, until `enough` says so.
std::string go_through_worlds(RankContext& rank, const std::function<bool(const View&)>& enough) {
  Changes& changes = *rank.changes();
  std::string said;
  (void)rank.world();  // of which view() speaks
  for (;;) {
    const View& view = changes.view();
    EXPECT_EQ(rank.size(), static_cast<int>(view.members.size()));
    EXPECT_EQ(view.members[static_cast<std::size_t>(rank.rank())].number, changes.number());
    const auto sum = sum_over_world(rank, changes.number());
    if (sum && changes.begin()) {
      said += text(view.epoch, ": ", rank.size(), " members, sum ", *sum, "; ");
      if (enough(view) && changes.finish()) return said;
      while (!changes.changing()) std::this_thread::sleep_for(1ms);
    }
    changes.enter();
  }
}

TEST(ChangingRank, TheOthersGoOnWithoutALostOneInAnotherWorld) {
  const JobResult job = run_job({.ranks = 4, .least = 2, .tell = [](const std::string&) {}}, [](RankContext& rank) {
                          rank.report(go_through_worlds(rank, [&](const View& view) {
                            if (rank.changes()->number() == 2) ::kill(getpid(), SIGKILL);
                            return view.epoch == 2;
                          }));
                          return status_of_expectations();
                        }).or_throw();
  EXPECT_TRUE(job.reached_end);
  EXPECT_TRUE(job.ok());
  for (const int rank : {0, 1, 3}) {
    // A rank may be stopped before it has heard of all in the world that the loss ends.
    EXPECT_THAT(job.reports[static_cast<std::size_t>(rank)],
                MatchesRegex("(1: 4 members, sum 6; )?2: 3 members, sum 4; "))
        << rank;
  }
  EXPECT_EQ(job.exit_status, (std::vector{0, 0, 128 + SIGKILL, 0}));
}

TEST(ChangingRank, AllButOneMayBeLostOneAfterTheOther) {
  const JobResult job = run_job({.ranks = 4, .least = 1, .tell = [](const std::string&) {}}, [](RankContext& rank) {
                          rank.report(go_through_worlds(rank, [&](const View& view) {
                            if (rank.size() > 1 && rank.rank() == 0) ::kill(getpid(), SIGKILL);
                            return view.members.size() == 1;
                          }));
                          return status_of_expectations();
                        }).or_throw();
  EXPECT_TRUE(job.reached_end);
  // The last one takes the place of the lost one each time: 3 1 2, then 2 1.
  EXPECT_THAT(job.reports[1], MatchesRegex("(1: 4 members, sum 6; )?(2: 3 members, sum 6; )?(3: 2 members, sum 3; )?"
                                           "4: 1 members, sum 1; "));
  EXPECT_EQ(job.exit_status, (std::vector{128 + SIGKILL, 0, 128 + SIGKILL, 128 + SIGKILL}));
}

TEST(ChangingRank, BatchesInTheHandOfALostOneAreHandedOutAgain) {
  constexpr std::uint64_t kBatches = 20;
  const auto main = [](RankContext& rank) {
    Changes& changes = *rank.changes();
    changes.holds([&] { return Holding{.held = 0}; });  // nothing of what is taken here is ever applied
    std::string said;
    const auto take_all = [&] {
      while (const auto batch = changes.take(kBatches, 0)) said += text(*batch, ' ');
    };
    if (changes.number() == 1) {
      // The first of these brings it to the job.
      for (int i = 0; i < 5; ++i) changes.take(kBatches, 0);
      ::kill(getpid(), SIGKILL);
    }
    if (rank.size() == 2) {  // else it was lost before this rank had come, which begins without it
      while (!changes.changing()) std::this_thread::sleep_for(1ms);
      changes.enter();
    }
    EXPECT_TRUE(changes.begin());
    take_all();
    EXPECT_TRUE(changes.finish());
    rank.report(said);
    return status_of_expectations();
  };
  const JobResult job = run_job({.ranks = 2, .least = 1, .tell = [](const std::string&) {}}, main).or_throw();
  std::string all;
  for (std::uint64_t batch = 0; batch < kBatches; ++batch) all += text(batch, ' ');
  EXPECT_EQ(job.reports[0], all);
  EXPECT_TRUE(job.reached_end);
  EXPECT_EQ(job.exit_status, (std::vector{0, 128 + SIGKILL})) << "by its own signal, and not by a fault before";
}

TEST(ChangingRank, ABatchIsDroppedThatThreeLostOnesWereComputingAndNoneThatTheyHadHandedOver) {
  constexpr std::uint64_t kBatches = 5;
  const auto main = [](RankContext& rank) {
    Changes& changes = *rank.changes();
    changes.holds([] { return Holding{.held = 0}; });  // nothing is ever applied
    // Members 1 to 3 end one after the other, and member 0 goes on.
    const std::size_t left = changes.number() == 0 ? 1 : 5 - changes.number();
    while (static_cast<std::size_t>(rank.size()) != left) {
      EXPECT_TRUE(changes.begin());
      while (!changes.changing()) std::this_thread::sleep_for(1ms);
      changes.enter();
    }
    EXPECT_TRUE(changes.begin());
    std::string said;
    for (std::uint64_t computed = 0; const auto batch = changes.take(kBatches, 0); ++computed) {
      said += text(*batch, ' ');
      if (changes.number() > 0 && *batch == 1) ::kill(getpid(), SIGKILL);
      changes.handed_over(computed + 1);
    }
    EXPECT_TRUE(changes.finish());
    rank.report(said);
    return status_of_expectations();
  };
  std::string told;
  const auto tell = [&](const std::string& line) { told += line + '\n'; };
  const JobResult job = run_job({.ranks = 4, .least = 1, .tell = tell}, main).or_throw();
  EXPECT_EQ(job.reports[0], "0 2 3 4 ");
  EXPECT_EQ(job.exit_status, (std::vector{0, 128 + SIGKILL, 128 + SIGKILL, 128 + SIGKILL}));
  EXPECT_THAT(told, testing::HasSubstr("batch 1 is dropped: 3 members were lost that may have been computing it"));
}

TEST(ChangingRank, AWorldForWhichThereIsNoMemoryIsNotEnteredAndEndsTheJobWithBothNumbers) {
  const std::uint64_t needed = JobMemory::bytes_needed(2, 0);
  const auto main = [&](RankContext& rank) {
    ::setenv("STRETTO_SHM_LIMIT", text(needed - 1).c_str(), 1);  // in the process of the rank
    (void)rank.world();
    return 0;
  };
  std::string told;
  const auto tell = [&](const std::string& line) { told += line + '\n'; };
  const JobResult job = run_job({.ranks = 2, .least = 2, .tell = tell}, main).or_throw();
  EXPECT_FALSE(job.reached_end);
  EXPECT_EQ(job.exit_status, (std::vector{1, 1}));
  EXPECT_THAT(told, testing::HasSubstr(text("too little shared memory: 2 ranks need ", format_bytes(needed),
                                            ", there are ", format_bytes(needed - 1))));
}

/// Why a process does not become a rank.
Error failure_of(const ChangingRankOptions& options) {
  try {
    make_changing_rank(options)->world();
  } catch (const Failure& failure) {
    return failure.error();
  }
  return {Errc::io, "it has become one"};
}

TEST(ChangingRank, AnotherJobsTokenIsNone) {
  const JobMaster master({.token = new_token()});
  const Error failure = failure_of({.port = master.port(), .token = new_token()});
  EXPECT_EQ(failure.code, Errc::unavailable);
  EXPECT_EQ(failure.message,
            text("the process that listens at 127.0.0.1:", master.port(),
                 " is no master of this job: it has ended the connection without a word, as with another secret"));
}

TEST(ChangingRank, AProcessThatSaysNothingIsNoMaster) {
  const Descriptor silent(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  socklen_t bytes = sizeof(address);
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(silent.get(), name, bytes), 0);
  ASSERT_EQ(::listen(silent.get(), 1), 0);
  ASSERT_EQ(::getsockname(silent.get(), name, &bytes), 0);
  const std::uint16_t port = ntohs(address.sin_port);
  const Error failure = failure_of({.port = port, .token = new_token(), .answer_within = 200ms});
  EXPECT_EQ(failure.code, Errc::unavailable);
  EXPECT_EQ(failure.message, text("the process that listens at 127.0.0.1:", port,
                                  " has not answered within 200ms: expected the master of this job"));
}

TEST(ChangingRank, TheSecondProcessOfANumberIsRefused) {
  const Token token = new_token();
  std::optional<JobMaster> master(std::in_place, JobMaster::Options{.token = token, .least = 2, .most = 2});
  std::mutex mutex;
  std::vector<std::string> why;
  const auto come = [&, port = master->port()] {
    const std::string said = failure_of({.port = port, .token = token, .number = 5}).message;
    const std::lock_guard lock(mutex);
    why.push_back(said);
  };
  std::thread one(come), other(come);
  const auto is_refused = [&] {
    const std::lock_guard lock(mutex);
    return !why.empty();
  };
  const SteadyClock clock;
  for (const TimePoint end = clock.now() + 20s; !is_refused() && clock.now() < end;) std::this_thread::sleep_for(1ms);
  master.reset();
  one.join(), other.join();
  EXPECT_THAT(why, testing::ElementsAre("this process is not let in: member 5 is another process, which is there",
                                        "the master of the job is lost: it has ended"));
}

TEST(ChangingRank, AConnectionToTheMasterIsMadeAnewAndNothingIsLostWithIt) {
  constexpr std::uint64_t kBatches = 200;
  const Token token = new_token();
  JobMaster master({.token = token, .liveness = std::chrono::hours(1)});
  Random random(7);
  CuttingProxy proxy(master.port(), [&] { return 3 + static_cast<int>(random.below(6)); });
  const auto rank = make_changing_rank({.port = proxy.port(), .token = token});
  Changes& changes = *rank->changes();
  (void)rank->world();
  ASSERT_TRUE(changes.begin());
  std::vector<std::uint64_t> batches;
  while (const auto batch = changes.take(kBatches, 0)) batches.push_back(*batch);
  std::vector<std::uint64_t> all(kBatches);
  std::iota(all.begin(), all.end(), std::uint64_t{0});
  EXPECT_EQ(batches, all) << "each is handed out once";
  EXPECT_TRUE(changes.finish());
  EXPECT_EQ(master.known().view.epoch, 1u) << "nobody was lost";
  EXPECT_EQ(master.known().end, JobEnd::done);
  EXPECT_GE(proxy.connections(), static_cast<int>(kBatches / 8));
}

TEST(ChangingRank, AnotherMasterGoesOnFromTheLogAndNothingIsLostWithTheOneBefore) {
  constexpr std::uint64_t kBatches = 200;
  const TemporaryFolder folder;
  JobMaster::Options options{
      .token = new_token(), .wait = 1min, .liveness = 1s, .log = folder.path() + "/log", .job = "a job"};
  std::optional<JobMaster> master(std::in_place, options);
  options.port = master->port();
  const auto rank = make_changing_rank({.port = options.port, .token = options.token});
  Changes& changes = *rank->changes();
  (void)rank->world();
  ASSERT_TRUE(changes.begin());
  std::vector<std::uint64_t> batches;
  while (const auto batch = changes.take(kBatches, 0)) {
    batches.push_back(*batch);
    if (*batch % 40 != 7) continue;
    master.reset();
    master.emplace(options);
  }
  std::vector<std::uint64_t> all(kBatches);
  std::iota(all.begin(), all.end(), std::uint64_t{0});
  EXPECT_EQ(batches, all) << "each is handed out once";
  EXPECT_TRUE(changes.finish());
  EXPECT_EQ(master->known().view.epoch, 1u) << "nobody was lost";
  EXPECT_EQ(master->known().end, JobEnd::done);
}

TEST(ChangingRank, AProcessThatComesWhileThereIsNoMasterWaitsForOne) {
  const TemporaryFolder folder;
  JobMaster::Options options{
      .token = new_token(), .wait = 1min, .liveness = 1s, .log = folder.path() + "/log", .job = "a job"};
  std::optional<JobMaster> master(std::in_place, options);
  options.port = master->port();
  master.reset();
  std::atomic<int> looks{0};
  std::thread rank([&] {
    const auto context = make_changing_rank(
        {.port = options.port, .token = options.token, .patience = 1min, .look = [&looks] { ++looks; }});
    (void)context->world();
    EXPECT_TRUE(context->changes()->begin());
    EXPECT_TRUE(context->changes()->finish());
  });
  while (looks == 0) std::this_thread::sleep_for(1ms);  // it has found none
  master.emplace(options);
  rank.join();
  EXPECT_EQ(master->known().end, JobEnd::done);
  master.reset();
  EXPECT_THAT(failure_of({.port = options.port, .token = options.token, .patience = 200ms}).message,
              testing::HasSubstr("cannot be reached: Connection refused"));
}

TEST(ChangingRank, AProcessWithOtherTermsIsToldBothValues) {
  const Token token = new_token();
  std::optional<JobMaster> master(std::in_place, JobMaster::Options{.token = token, .least = 2, .most = 2});
  const auto come = [&, port = master->port()](MemberNumber number, const std::string& between) {
    return failure_of({.port = port, .token = token, .number = number, .terms = {{"between", between}}});
  };
  std::string first;
  std::thread one([&] { first = come(0, "tcp").message; });
  while (master->visitors() == 0) std::this_thread::sleep_for(1ms);
  const Error other = come(1, "smoke signals");
  EXPECT_EQ(other.code, Errc::bad_input);
  EXPECT_EQ(other.message, "this process is not let in: between is smoke signals here, and tcp in the job");
  master.reset();
  one.join();
  EXPECT_EQ(first, "the master of the job is lost: it has ended");
}

TEST(ChangingRank, AJobWithFewerThanTheLeastIsNoPlaceToStart) {
  EXPECT_THROW((void)run_job({.ranks = 2, .least = 3}, [](RankContext&) { return 0; }), UsageError);
  EXPECT_THROW((void)run_job({.ranks = 2, .least = 1, .extra_bytes = 64}, [](RankContext&) { return 0; }), UsageError);
}

}  // namespace
}  // namespace stretto
