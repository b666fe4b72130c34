// Ranks that are lost in a run that goes on without them: ranks as processes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/words.h"
#include "stretto/train/job/run.h"
#include "stretto/train/testing/test_task.h"

namespace stretto {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

constexpr std::uint64_t kBatches = 800;  // 50 epochs of 64 samples, 4 a batch

class ChangedMembers : public testing::Test {
 protected:
  ChangedMembers()
      : begun_(*new (::mmap(nullptr, sizeof(std::atomic<std::uint64_t>), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0)) std::atomic<std::uint64_t>) {}
  ~ChangedMembers() override { ::munmap(&begun_, sizeof begun_); }
  ChangedMembers(const ChangedMembers&) = delete;
  ChangedMembers& operator=(const ChangedMembers&) = delete;

  /// A run in which `happens` is called in the process of a rank that begins the n-th batch of all, from 1.
  RunSummary run(TrainOptions options, const std::function<void(std::uint64_t n)>& happens) {
    begun_ = 0;
    const auto task = linear_task({.before_batch = [&](std::uint64_t) { happens(begun_.fetch_add(1) + 1); }});
    options.epochs = 50;
    options.pace = std::chrono::microseconds(100);
    return *run_training(options, *task, {.progress = [this](const RunProgress& progress) {
                           if (!progress.notice.empty()) told_.push_back(progress.notice);
                         }});
  }

  /// Each batch is in one result, and all that have stayed have the same model.
  static void expect_whole(const RunSummary& summary) {
    EXPECT_EQ(summary.deposits.applied, kBatches);
    EXPECT_EQ(summary.deposits.lost, 0u);
    EXPECT_TRUE(summary.replicas_identical);
    ASSERT_TRUE(summary.members.has_value());
    const auto& batches = summary.members->batches;
    EXPECT_EQ(std::accumulate(batches.begin(), batches.end(), std::uint64_t{0}), kBatches);
  }

  std::atomic<std::uint64_t>& begun_;
  std::vector<std::string> told_;
};

struct ChangedCase {
  const char* algorithm;
  int seats;
};
void PrintTo(const ChangedCase& one, std::ostream* out) {
  *out << one.algorithm << ", seats " << one.seats;
}

class EachAlgorithm : public ChangedMembers, public testing::WithParamInterface<ChangedCase> {
 protected:
  static TrainOptions options(int ranks) {
    return {.algorithm = GetParam().algorithm, .ranks = ranks, .least = 1, .seats = GetParam().seats};
  }
};

TEST_P(EachAlgorithm, GoesOnWithoutALostRank) {
  const RunSummary summary = run(options(4), [](std::uint64_t n) {
    if (n == 150) ::raise(SIGKILL);
  });
  expect_whole(summary);
  ASSERT_EQ(summary.members->worlds.size(), 2u);
  EXPECT_EQ(summary.members->worlds[0].members, (std::vector<std::uint64_t>{0, 1, 2, 3}));
  EXPECT_EQ(summary.members->worlds[1].members.size(), 3u);
  EXPECT_THAT(told_, Contains(HasSubstr("is lost: killed by SIGKILL; the others go on")));
  EXPECT_THAT(told_, Contains(HasSubstr("3 members go on after round")));
}

TEST_P(EachAlgorithm, GoesOnWithTheLastOne) {
  const RunSummary summary = run(options(4), [](std::uint64_t n) {
    if (n == 100 || n == 101 || n == 400) ::raise(SIGKILL);
  });
  expect_whole(summary);
  EXPECT_EQ(summary.members->worlds.back().members.size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(All, EachAlgorithm,
                         testing::ValuesIn(std::vector<ChangedCase>{{"sync", 0},
                                                                    {"sync", 1},
                                                                    {"sync", 2},
                                                                    {"eager-quorum", 0},
                                                                    {"eager-quorum:3", 1},
                                                                    {"eager-quorum", 2},
                                                                    {"eager-solo", 0},
                                                                    {"eager-solo", 1},
                                                                    {"eager-majority", 0},
                                                                    {"eager-majority", 2},
                                                                    {"eager-deadline:3,1ms", 0},
                                                                    {"eager-deadline:2,adaptive", 1},
                                                                    {"diloco", 0},
                                                                    {"diloco", 1},
                                                                    {"diloco:quorum", 0},
                                                                    {"diloco:quorum:3", 1},
                                                                    {"diloco:solo", 2},
                                                                    {"local:quorum", 0},
                                                                    {"local:majority", 1},
                                                                    {"local:deadline:2,1ms", 0}}));

TEST_F(ChangedMembers, AnyRankMayTakeOverWhatRankZeroDoesForAll) {
  const TrainOptions options{
      .algorithm = "eager-quorum", .ranks = 3, .least = 1, .evaluate_every = 200, .evaluate = "average"};
  const RunSummary summary = run(options, [](std::uint64_t n) {
    if (n % 200 == 150 && n < 400) ::raise(SIGKILL);
  });
  expect_whole(summary);
  EXPECT_TRUE(summary.loss.has_value());
  EXPECT_FALSE(summary.evaluations.empty());
}

TEST_F(ChangedMembers, AnExceptionIsALossOfItsRankAlone) {
  const RunSummary summary = run({.algorithm = "sync", .ranks = 3, .least = 2}, [](std::uint64_t n) {
    if (n == 60) throw std::runtime_error("no such word in the dictionary");
  });
  expect_whole(summary);
  EXPECT_THAT(told_, Contains(HasSubstr("no such word in the dictionary")));
  EXPECT_EQ(summary.members->worlds.back().members.size(), 2u);
}

TEST_F(ChangedMembers, ARunWithFewerThanTheLeastEnds) {
  try {
    run({.algorithm = "eager-solo", .ranks = 3, .least = 3}, [](std::uint64_t n) {
      if (n == 60) ::raise(SIGKILL);
    });
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_THAT(failure.what(), testing::MatchesRegex("rank [0-2] was lost after [0-9]+ of 800 batches: ended by "
                                                      "signal 9 .Killed.; fewer than 3 are left"));
  }
}

TEST_F(ChangedMembers, AnErrorAfterALossThatIsSurvivedIsNamedAndNotTheLoss) {
  // The weights diverge, and no round is complete between the loss and the next world.
  try {
    run({.algorithm = "sync", .ranks = 3, .least = 1, .lr = 3}, [](std::uint64_t n) {
      if (n == 9) ::raise(SIGKILL);
    });
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.error().code, Errc::aborted);
    EXPECT_THAT(failure.what(), HasSubstr("not finite"));
  }
  EXPECT_THAT(told_, Contains(HasSubstr("2 members go on after round")));
}

TEST_F(ChangedMembers, AGradientThatIsNotFiniteEndsTheJob) {
  const auto task = linear_task({.poisoned = 17});
  EXPECT_THROW((void)run_training({.algorithm = "sync", .ranks = 3, .least = 1, .epochs = 50}, *task,
                                  {.progress = [](const RunProgress&) {}}),
               Failure);
}

}  // namespace
}  // namespace stretto
