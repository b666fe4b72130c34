// Loops of one's own where members of the job change: ranks as processes, which bring integers, so that the sum of all
// rounds says exactly which batches are in them, in whatever worlds.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/membership/job.h"
#include "stretto/train/loop/loop_batches.h"
#include "stretto/train/loop/own_loop.h"
#include "stretto/train/testing/two_numbers.h"

namespace stretto {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr std::uint64_t kBatches = 601;  // one more than three ranks take alike

/// A batch's two numbers: the sums of both tell of a batch that is missing and of one that is there twice.
std::pair<float, float> numbers_of(std::uint64_t batch) {
  return {static_cast<float>(batch + 1), static_cast<float>((batch * batch) % 251)};
}

class OwnLoopMembers : public testing::TestWithParam<const char*> {
 protected:
  /// Of all ranks' processes.
  struct Shared {
    std::atomic<std::uint64_t> begun;       // batches
    std::atomic<pid_t> process_of[4] = {};  // by number
  };

  OwnLoopMembers()
      : shared_(*new (::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
                    Shared) {}
  ~OwnLoopMembers() override { ::munmap(&shared_, sizeof shared_); }
  OwnLoopMembers(const OwnLoopMembers&) = delete;
  OwnLoopMembers& operator=(const OwnLoopMembers&) = delete;

  /// One rank's loop over the job's pool. `happens` is called as the n-th batch of all begins, from 1. Returns what is
  /// not as it should be, from a rank that has been there from the beginning.
  std::string train(RankContext& context, const std::function<void(OwnLoop& loop, std::uint64_t n)>& happens) {
    shared_.process_of[number_of(context)] = ::getpid();
    TwoNumbers replica{0};
    DistributedOptions options;
    options.algorithm = GetParam();
    OwnLoop loop(context, replica, options);
    loop.begin();
    double first = 0, second = 0;
    loop.on_round([&](const RoundResult& result) {
      if (result.empty()) return;
      first += result.as<float>(0)[0];
      second += result.as<float>(1)[0];
    });
    LoopBatches batches(context, loop.session());
    const auto pool = batches.make({.samples = kBatches, .batch = 1, .ranks = loop.session().most_ranks(), .epochs = 1},
                                   Sharing::shared);
    const auto compute = [&](const Batch& batch) {
      happens(loop, shared_.begun.fetch_add(1) + 1);
      const auto [a, b] = numbers_of(batch.sequence);
      replica.backward(0, a);
      replica.backward(1, b);
    };
    if (batches_a_step_ == 1) {
      pool->at_end([&loop] { return loop.drain(); });
      while (const auto batch = pool->next()) {
        loop.begin_step();
        compute(*batch);
        loop.step(1);
        batches.deposited();
      }
    }
    for (std::uint64_t added = 0; batches_a_step_ > 1;) {
      pool->look_again();
      const auto batch = pool->next();
      if (batch) {
        if (added++ == 0) loop.begin_step();
        compute(*batch);
      }
      if (added == batches_a_step_ || (!batch && added > 0)) {
        loop.step(1, std::exchange(added, 0));
      } else if (!batch && loop.drain()) {
        break;
      }
    }
    loop.finish();
    double all_first = 0, all_second = 0;
    for (std::uint64_t batch = 0; batch < kBatches; ++batch) {
      all_first += numbers_of(batch).first;
      all_second += numbers_of(batch).second;
    }
    std::string wrong;
    if (loop.applied() != kBatches) wrong += text(loop.applied(), " batches applied; ");
    if (loop.ledger().batches() != kBatches) wrong += text(loop.ledger().batches(), " in the ledger; ");
    if (first != all_first || second != all_second) wrong += text("sums ", first, " and ", second, "; ");
    if (!loop.identical()) wrong += "replicas differ; ";
    return wrong;
  }

  /// What the ranks that stay have to say.
  std::vector<std::string> run(int ranks, const std::function<void(OwnLoop& loop, std::uint64_t n)>& happens) {
    ::alarm(110);
    const auto job =
        run_job({.ranks = ranks, .least = 1, .tell = [](const std::string&) {}}, [&](RankContext& context) {
          context.report("good" + train(context, happens));
          return 0;
        }).or_throw();
    ::alarm(0);
    num_failed_ = std::ranges::count_if(job.exit_status, [](int status) { return status != 0; });
    std::vector<std::string> said;
    for (const std::string& report : job.reports) {
      if (!report.empty()) said.push_back(report);
    }
    EXPECT_EQ(job.reached_end, !said.empty()) << job.cause;
    return said;
  }

  std::uint64_t batches_a_step_ = 1;
  Shared& shared_;
  std::ptrdiff_t num_failed_ = 0;
};

TEST_P(OwnLoopMembers, AllStay) {
  const auto said = run(3, [](OwnLoop&, std::uint64_t) {});
  EXPECT_EQ(said.size(), 3u);
  EXPECT_THAT(said, Each("good"));
}

TEST_P(OwnLoopMembers, OneIsLost) {
  const auto said = run(4, [](OwnLoop&, std::uint64_t n) {
    if (n == 200) ::raise(SIGKILL);
  });
  EXPECT_EQ(said.size(), 3u);
  EXPECT_THAT(said, Each("good"));
}

TEST_P(OwnLoopMembers, AllButOneAreLost) {
  const auto said = run(4, [](OwnLoop&, std::uint64_t n) {
    if (n == 100 || n == 101 || n == 400) ::raise(SIGKILL);
  });
  EXPECT_EQ(said.size(), 1u);
  EXPECT_THAT(said, Each("good"));
}

// Of a step under way no batch counts, of one that was handed over all do.
TEST_P(OwnLoopMembers, AStepHasSeveralBatches) {
  batches_a_step_ = 7;
  const auto said = run(4, [](OwnLoop&, std::uint64_t n) {
    if (n == 150 || n == 340) ::raise(SIGKILL);
  });
  EXPECT_EQ(said.size(), 2u);
  EXPECT_THAT(said, Each("good"));
}

// Its batch comes back when the others have none any more, and wait at the end.
TEST_P(OwnLoopMembers, OneIsLostWithTheLastBatch) {
  const auto said = run(3, [](OwnLoop&, std::uint64_t n) {
    if (n == kBatches) {
      ::usleep(50'000);
      ::raise(SIGKILL);
    }
  });
  EXPECT_EQ(said.size(), 2u);
  EXPECT_THAT(said, Each("good"));
}

TEST_P(OwnLoopMembers, OneLeaves) {
  const auto said = run(4, [](OwnLoop& loop, std::uint64_t n) {
    if (n == 200) loop.leave();
  });
  EXPECT_EQ(said.size(), 3u);
  EXPECT_THAT(said, Each("good"));
  EXPECT_EQ(num_failed_, 0);
}

TEST_P(OwnLoopMembers, TwoLeaveOfWhichOneIsToldBySigterm) {
  const auto said = run(4, [](OwnLoop& loop, std::uint64_t n) {
    if (n == 200) loop.leave();
    if (n == 201) ::raise(SIGTERM);
  });
  EXPECT_EQ(said.size(), 2u);
  EXPECT_THAT(said, Each("good"));
  EXPECT_EQ(num_failed_, 0);
}

TEST_P(OwnLoopMembers, OneLeavesAsAnotherIsLost) {
  const auto said = run(4, [](OwnLoop& loop, std::uint64_t n) {
    if (n == 200) loop.leave();
    if (n == 202) ::raise(SIGKILL);
  });
  EXPECT_THAT(said, Each("good"));
  EXPECT_EQ(num_failed_, 1);
}

// All others have none any more, and wait. It goes while that batch is computed, unless a round is held for it in which
// its own is.
TEST_P(OwnLoopMembers, OneLeavesThatWaitsForTheLastBatchOfAnother) {
  const auto said = run(3, [this](OwnLoop&, std::uint64_t n) {
    if (n != kBatches) return;
    const pid_t other = shared_.process_of[shared_.process_of[0] == ::getpid() ? 1 : 0];
    ::kill(other, SIGTERM);
    ::usleep(200'000);
  });
  EXPECT_EQ(said.size(), 2u);
  EXPECT_THAT(said, Each("good"));
  EXPECT_EQ(num_failed_, 0);
}

TEST_P(OwnLoopMembers, AllLeave) {
  const auto said = run(3, [](OwnLoop& loop, std::uint64_t n) {
    if (n >= 100) loop.leave();
  });
  EXPECT_TRUE(said.empty());
  EXPECT_EQ(num_failed_, 0);
}

INSTANTIATE_TEST_SUITE_P(All, OwnLoopMembers,
                         testing::Values("sync", "eager-quorum", "eager-solo", "eager-deadline:2,1ms"));

/// What a loop says where it is asked for something that does not go on.
std::string refusal(DistributedOptions options, const std::function<void(OwnLoop&)>& call = {}) {
  const auto job = run_job({.ranks = 2, .least = 1, .tell = [](const std::string&) {}}, [&](RankContext& context) {
                     TwoNumbers replica{0};
                     try {
                       OwnLoop loop(context, replica, options);
                       loop.begin();
                       call(loop);
                     } catch (const UsageError& error) {
                       context.report(error.what());
                     }
                     return 0;
                   }).or_throw();
  return job.reports[0];
}

TEST(OwnLoopRefuses, ToLeaveWhereMembersStayTheSame) {
  const auto job = run_job({.ranks = 1}, [](RankContext& context) {
                     TwoNumbers replica{0};
                     OwnLoop loop(context, replica, {});
                     loop.begin();
                     try {
                       loop.leave();
                     } catch (const UsageError& error) {
                       context.report(error.what());
                     }
                     loop.finish();
                     return 0;
                   }).or_throw();
  EXPECT_THAT(job.reports[0], HasSubstr("leave() where the members of the job stay the same"));
}

TEST(OwnLoopRefuses, WhatDoesNotGoOnWhereMembersChange) {
  DistributedOptions options;
  options.algorithm = "wagma";
  options.algorithm_options.set("tau", "1001");
  EXPECT_THAT(refusal(options), HasSubstr("members that change with tau 1001: expected at most 1000"));
  options.algorithm_options = {};
  options.algorithm = "sync";
  options.overlap = true;
  EXPECT_THAT(refusal(options), HasSubstr("members that change with overlap: expected none"));
  options.overlap = false;
  EXPECT_THAT(refusal(options, [](OwnLoop& loop) { loop.step(1, 0); }), HasSubstr("a step of 0 batches"));
  EXPECT_THAT(refusal(options, [](OwnLoop& loop) { loop.step(1, 1001); }), HasSubstr("a step of 1001 batches"));
  options.algorithm = "diloco";
  EXPECT_THAT(refusal(options, [](OwnLoop& loop) { loop.pass(); }),
              HasSubstr("pass() where members of the job change"));
  EXPECT_THAT(refusal(options, [](OwnLoop& loop) { loop.step(1, 2); }),
              HasSubstr("a step of 2 batches under an algorithm that counts each rank's steps"));
}

}  // namespace
}  // namespace stretto
