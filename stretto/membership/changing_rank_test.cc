#include "stretto/membership/changing_rank.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/base/words.h"
#include "stretto/membership/changes.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using testing::MatchesRegex;

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
                          return 0;
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
                          return 0;
                        }).or_throw();
  EXPECT_TRUE(job.reached_end);
  EXPECT_THAT(job.reports[3], MatchesRegex("(1: 4 members, sum 6; )?(2: 3 members, sum 6; )?(3: 2 members, sum 5; )?"
                                           "4: 1 members, sum 3; "));
}

TEST(ChangingRank, BatchesInTheHandOfALostOneAreHandedOutAgain) {
  constexpr std::uint64_t kBatches = 20;
  const auto main = [](RankContext& rank) {
    Changes& changes = *rank.changes();
    std::vector<std::uint64_t> taken;
    changes.holds([&] { return Holding{.held = 0}; });  // nothing of what is taken here is ever applied
    std::string said;
    const auto take_all = [&] {
      while (const auto batch = changes.take(kBatches)) said += text(*batch, ' ');
    };
    if (changes.number() == 1) {
      for (int i = 0; i < 5; ++i) changes.take(kBatches);
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
    return 0;
  };
  const JobResult job = run_job({.ranks = 2, .least = 1, .tell = [](const std::string&) {}}, main).or_throw();
  std::string all;
  for (std::uint64_t batch = 0; batch < kBatches; ++batch) all += text(batch, ' ');
  EXPECT_EQ(job.reports[0], all);
  EXPECT_TRUE(job.reached_end);
}

TEST(ChangingRank, AJobWithFewerThanTheLeastIsNoPlaceToStart) {
  EXPECT_THROW((void)run_job({.ranks = 2, .least = 3}, [](RankContext&) { return 0; }), UsageError);
  EXPECT_THROW((void)run_job({.ranks = 2, .least = 1, .extra_bytes = 64}, [](RankContext&) { return 0; }), UsageError);
}

}  // namespace
}  // namespace stretto
