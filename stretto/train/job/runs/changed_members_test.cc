// Ranks that are lost in a run that goes on without them: ranks as processes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/words.h"
#include "stretto/train/job/checkpoint.h"
#include "stretto/train/job/run.h"
#include "stretto/train/testing/test_task.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;

constexpr std::uint64_t kBatches = 800;  // 50 epochs of 64 samples, 4 a batch

class ChangedMembers : public testing::Test {
 protected:
  /// All ranks of a run see it.
  struct Seen {
    std::atomic<std::uint64_t> begun{0}, killed{0}, saves{0};  // batches, ranks, checkpoints
    std::array<std::atomic<std::uint64_t>, 64> begun_at{};     // a checkpoint: batches
    bool is_first_kill() { return killed.fetch_add(1) == 0; }
  };

  ChangedMembers()
      : seen_(*new (::mmap(nullptr, sizeof(Seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Seen),
        root_(fs::path(testing::TempDir()) / text("stretto_changed_members_", ::getpid())) {
    fs::remove_all(root_);
  }
  ~ChangedMembers() override {
    ::munmap(&seen_, sizeof seen_);
    fs::remove_all(root_);
  }
  ChangedMembers(const ChangedMembers&) = delete;
  ChangedMembers& operator=(const ChangedMembers&) = delete;

  /// A run in which `happens` is called in the process of a rank that begins the n-th batch of all, from 1.
  RunSummary run(TrainOptions options, const std::function<void(std::uint64_t n)>& happens) {
    seen_.begun = 0;
    hooks_.before_batch = [&](std::uint64_t) { happens(seen_.begun.fetch_add(1) + 1); };
    const auto task = linear_task(hooks_);
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

  /// The batches that the first of a member's records name, in order.
  std::vector<std::uint64_t> recorded(const std::string& folder, std::size_t number, std::uint64_t first) const {
    std::vector<std::uint64_t> batches;
    std::ifstream in(text(folder, "/records-", number, ".jsonl"));
    for (std::string line; batches.size() < first && std::getline(in, line);) {
      batches.push_back(nlohmann::json::parse(line).at("batch").get<std::uint64_t>());
    }
    return batches;
  }

  Seen& seen_;
  const fs::path root_;
  LinearTaskOptions hooks_;
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
                                                                    {"local", 0},
                                                                    {"local", 2},
                                                                    {"local:quorum", 0},
                                                                    {"local:majority", 1},
                                                                    {"local:deadline:2,1ms", 0},
                                                                    {"wagma", 0},
                                                                    {"wagma:4", 1},
                                                                    {"wagma", 2},
                                                                    {"wagma-quorum", 0},
                                                                    {"wagma-quorum:3", 1},
                                                                    {"wagma-quorum", 2},
                                                                    {"d-psgd", 0},
                                                                    {"sgp", 0},
                                                                    {"osgp", 1},
                                                                    {"gossip-grad", 0},
                                                                    {"ad-psgd", 0},
                                                                    {"easgd", 0},
                                                                    {"easgd-async", 0},
                                                                    {"easgd-grid", 0},
                                                                    {"easgd-grid", 1}}));

struct CutOffCase {
  const char* algorithm;
  std::uint64_t sync_every;
  bool in_average;  ///< a rank is lost while its buffers are averaged, and not the one that writes
};
void PrintTo(const CutOffCase& one, std::ostream* out) {
  *out << one.algorithm << (one.in_average ? ", in an average" : ", in a save");
}

class CutOffCheckpoint : public ChangedMembers, public testing::WithParamInterface<CutOffCase> {};

TEST_P(CutOffCheckpoint, IsMadeAgainAtTheNextFullRound) {
  hooks_.in_save = [&] {
    if (!GetParam().in_average && seen_.is_first_kill()) ::raise(SIGKILL);
    seen_.begun_at.at(seen_.saves++) = seen_.begun.load();
  };
  hooks_.in_average = [&] {
    if (GetParam().in_average && seen_.begun >= 200 && seen_.is_first_kill()) ::raise(SIGKILL);
  };
  const TrainOptions options{.algorithm = GetParam().algorithm,
                             .ranks = 4,
                             .least = 1,
                             .sync_every = GetParam().sync_every,
                             .checkpoint_every = 200,
                             .out = (root_ / "run").string()};
  const RunSummary summary = run(options, [](std::uint64_t) {});
  expect_whole(summary);
  EXPECT_EQ(summary.members->worlds.back().members.size(), 3u);
  EXPECT_EQ(read_checkpoint(options.out).batches, kBatches);
  ASSERT_GE(seen_.saves, 4u);
  EXPECT_LT(seen_.begun_at[0], 300u) << "the one after 200 batches";
}

INSTANTIATE_TEST_SUITE_P(All, CutOffCheckpoint,
                         testing::ValuesIn(std::vector<CutOffCase>{{"sync", 0, false},
                                                                   {"sync", 0, true},
                                                                   {"eager-quorum", 50, false},
                                                                   {"eager-quorum", 50, true},
                                                                   {"diloco", 4, false},
                                                                   {"diloco", 4, true},
                                                                   {"local", 4, false},
                                                                   {"local", 4, true}}));

class ResumedMembers : public ChangedMembers, public testing::WithParamInterface<const char*> {};

TEST_P(ResumedMembers, GoOnFromACheckpointOfOthers) {
  const std::string folder = (root_ / "run").string();
  TrainOptions options{.algorithm = GetParam(), .data = "shared", .checkpoint_every = 50};
  if (!options.algorithm.starts_with("eager") && options.algorithm != "sync") options.sync_every = 4;
  const auto kills = [](std::set<std::uint64_t> at) {
    return [at = std::move(at)](std::uint64_t n) {
      if (at.contains(n)) ::raise(SIGKILL);
    };
  };
  const auto position = [&](std::uint64_t from, std::uint64_t most) {
    Checkpoint checkpoint = read_checkpoint(folder);
    EXPECT_GT(checkpoint.batches, from);
    EXPECT_LE(checkpoint.batches, most);
    EXPECT_TRUE(checkpoint.any_ranks);
    return checkpoint;
  };

  TrainOptions some = options;  // members that change, until too few are left
  some.ranks = 4;
  some.least = 3;
  some.out = folder;
  EXPECT_THROW(run(some, kills({120, 260})), Failure);
  const std::uint64_t first = position(100, 260).batches;

  TrainOptions two = options;  // that do not change
  two.ranks = 2;
  two.resume = folder;
  EXPECT_THROW(run(two, kills({130})), Failure);
  const Checkpoint second = position(first, first + 130);
  EXPECT_EQ(second.position.steps.size(), 4u);

  TrainOptions many = options;
  many.ranks = 6;
  many.least = 1;
  many.resume = folder;
  const RunSummary rest = run(many, kills({60, 110}));
  EXPECT_EQ(rest.deposits.applied, kBatches - second.batches);
  EXPECT_EQ(rest.deposits.lost, 0u);
  EXPECT_TRUE(rest.replicas_identical);
  EXPECT_EQ(position(second.batches, kBatches).batches, kBatches);

  std::vector<std::uint64_t> all;
  for (std::size_t number = 0; number < 6; ++number) {
    const std::uint64_t before = number < 4 ? second.position.steps[number] : 0;
    const std::uint64_t count = before + rest.members->batches[number];
    const auto batches = recorded(folder, number, count);
    EXPECT_EQ(batches.size(), count) << "of member " << number;
    all.insert(all.end(), batches.begin(), batches.end());
  }
  std::ranges::sort(all);
  std::vector<std::uint64_t> each(kBatches);
  std::iota(each.begin(), each.end(), 0u);
  EXPECT_EQ(all, each);
}

INSTANTIATE_TEST_SUITE_P(All, ResumedMembers,
                         testing::Values("sync", "eager-quorum", "eager-solo", "local", "diloco", "diloco:quorum"));

TEST_F(ChangedMembers, AnAverageOfStatesThatIsCutOffEndsNoRank) {
  hooks_.in_average = [&] {
    if (seen_.begun >= 200 && seen_.is_first_kill()) ::raise(SIGKILL);
  };
  TrainOptions options{.algorithm = "diloco", .ranks = 4, .least = 1, .momentum = 0.9, .sync_every = 1};
  options.lr = 0.01;
  options.algorithm_options.set("average-momentum", "yes");
  options.algorithm_options.set("outer-lr", "0.3");
  options.algorithm_options.set("outer-momentum", "0");
  const RunSummary summary = run(options, [](std::uint64_t) {});
  expect_whole(summary);
  EXPECT_EQ(summary.members->worlds.back().members.size(), 3u);
}

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
