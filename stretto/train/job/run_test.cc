#include "stretto/train/job/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "stretto/train/job/checkpoint.h"
#include "stretto/train/replica/flat_math.h"
#include "stretto/train/testing/test_task.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class RunTest : public testing::Test {
 protected:
  RunTest() : folder_(fs::path(testing::TempDir()) / text("stretto_run_", ::getpid())) { ::alarm(100); }
  ~RunTest() override {
    ::alarm(0);
    fs::remove_all(folder_);
  }

  std::string folder(const std::string& name) const { return (folder_ / name).string(); }

  RunSummary run(const TrainOptions& options, const TrainingTask& task) {
    RunHooks hooks{.progress = [this](const RunProgress& progress) {
      if (!progress.notice.empty()) notices_ += progress.notice + "\n";
    }};
    return run_training(options, task, hooks).value();
  }
  RunSummary run(const TrainOptions& options) { return run(options, *linear_task()); }

  // What a run ends with, to the bit.
  ReplicaChecksum final_checksum(TrainOptions options, const LinearTaskOptions& task = {}) {
    options.out = folder(text("final", runs_++));
    options.checkpoint_every = 1'000'000;
    run(options, *linear_task(task));
    return read_checkpoint(options.out).checksum;
  }

  static std::string content_of(const fs::path& path) {
    std::ifstream in(path);
    std::stringstream content;
    content << in.rdbuf();
    return content.str();
  }

  const fs::path folder_;
  std::string notices_;
  int runs_ = 0;
};

struct Case {
  std::string algorithm;
  int ranks;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.algorithm << " on " << c.ranks;
}

class EveryAlgorithm : public RunTest, public testing::WithParamInterface<Case> {};

TEST_P(EveryAlgorithm, AppliesEveryBatchOnceAndLeavesEqualReplicas) {
  const auto [algorithm, ranks] = GetParam();
  // 64 samples, 4 a batch, 5 passes: 80 batches, which 3 and 5 ranks share unevenly.
  TrainOptions options{.algorithm = algorithm, .ranks = ranks, .epochs = 5, .max_lag = 3};
  // Models are at most τ − 1 rounds old, whichever rank the scheduler lets run ahead.
  if (algorithm.starts_with("wagma")) options.algorithm_options = {{"tau", "4"}};
  const RunSummary s = run(options);
  EXPECT_EQ(s.deposits.made, 80u);
  EXPECT_EQ(s.deposits.applied, 80u);
  EXPECT_EQ(s.deposits.lost, 0u);
  EXPECT_TRUE(s.replicas_identical);
  EXPECT_LE(s.staleness_max, 3u);
  EXPECT_GT(s.throughput, 0);
  EXPECT_LT(*s.loss, 5) << "from 50";
  EXPECT_FALSE(s.accuracy.has_value());
  EXPECT_GT(s.rounds, 0u);
  EXPECT_FALSE(s.curve.empty());
  EXPECT_EQ(s.lost_seconds.size(), static_cast<std::size_t>(ranks));
}

INSTANTIATE_TEST_SUITE_P(Run, EveryAlgorithm,
                         testing::Values(Case{"sync", 1}, Case{"sync", 3}, Case{"sync", 4}, Case{"eager-solo", 4},
                                         Case{"eager-majority", 3}, Case{"eager-quorum", 1}, Case{"eager-quorum", 4},
                                         Case{"eager-quorum:5", 5}, Case{"eager-deadline:2,1ms", 4},
                                         Case{"eager-deadline:2,adaptive", 3}, Case{"local", 1}, Case{"local", 3},
                                         Case{"local", 5}, Case{"wagma", 1}, Case{"wagma", 4}, Case{"wagma:2", 5},
                                         Case{"wagma-quorum", 3}, Case{"wagma-quorum", 4}),
                         [](const auto& info) {
                           std::string name = text(info.param.algorithm, "_on_", info.param.ranks);
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

TEST_F(RunTest, SeveralBoardsDoWhatOneDoes) {
  for (const char* algorithm :
       {"sync", "eager-solo", "eager-majority", "eager-quorum", "eager-deadline:2,1ms", "local"}) {
    for (const int seats : {2, 3}) {
      const RunSummary s = run({.algorithm = algorithm, .ranks = 5, .epochs = 5, .max_lag = 3, .seats = seats});
      EXPECT_EQ(s.deposits.applied, 80u) << algorithm << " at boards of " << seats;
      EXPECT_TRUE(s.replicas_identical) << algorithm << " at boards of " << seats;
      EXPECT_LE(s.staleness_max, 3u) << algorithm << " at boards of " << seats;
    }
  }
}

TEST_F(RunTest, SyncOnSeveralBoardsRepeatsToTheBit) {
  for (const int ranks : {3, 4, 5}) {
    TrainOptions options{
        .ranks = ranks, .epochs = 3, .momentum = 0.9, .data = "partitioned", .seats = 2, .fixed_order = true};
    const ReplicaChecksum sync = final_checksum(options);
    EXPECT_EQ(final_checksum(options), sync) << ranks << " ranks";
    options.algorithm = text("eager-quorum:", ranks);
    EXPECT_EQ(final_checksum(options), sync) << ranks << " ranks";
    options.algorithm = "sync";
    options.imbalance = "linear:1us..2us";
    EXPECT_EQ(final_checksum(options), sync) << ranks << " ranks, handed over after the backward pass";
    options.imbalance = "none";
    options.seats = 0;
    if (ranks == 4) {
      EXPECT_EQ(final_checksum(options), sync) << "powers of two";
    }
  }
}

TEST_F(RunTest, ProgressByTheApplicationAloneIsEnough) {
  for (const char* algorithm : {"sync", "eager-solo", "eager-quorum", "local", "wagma", "wagma-quorum"}) {
    const RunSummary s = run({.algorithm = algorithm, .ranks = 3, .epochs = 5, .progress_by = ProgressBy::application});
    EXPECT_EQ(s.deposits.applied, 80u) << algorithm;
    EXPECT_TRUE(s.replicas_identical) << algorithm;
  }
}

TEST_F(RunTest, SampledBatchesAreAsMany) {
  const TrainOptions options{.ranks = 3, .epochs = 3, .data = "sampled"};
  EXPECT_EQ(run(options).deposits.applied, 48u);
  EXPECT_EQ(run({.algorithm = "eager-quorum", .ranks = 3, .epochs = 3, .data = "sampled"}).deposits.applied, 48u);
}

TEST_F(RunTest, OneRankDoesWhatPlainSgdDoes) {
  const auto task = linear_task();
  const auto alone = task->start_rank({.seed = 1, .lr = 0.05, .momentum = 0.9});
  BatchPlan batches({.samples = 64, .batch = 4, .ranks = 1, .epochs = 2, .seed = 1});
  for (std::uint64_t i = 0; i < batches.num_batches(); ++i) {
    alone->replica().attach_own();
    alone->forward_backward(batches.batch(i).samples, 0);
    alone->replica().end_backward();
    alone->replica().step();
  }
  for (const char* algorithm : {"sync", "eager-solo", "eager-quorum", "local", "wagma"}) {
    EXPECT_EQ(final_checksum({.algorithm = algorithm, .ranks = 1, .epochs = 2, .momentum = 0.9, .sync_every = 1}),
              alone->replica().checksum())
        << algorithm;
  }
}

TEST_F(RunTest, SyncRepeatsToTheBitAndHasTheBitsOfEagerAtQuorumP) {
  for (const int ranks : {2, 3, 4}) {
    TrainOptions options{.ranks = ranks, .epochs = 3, .momentum = 0.9, .data = "partitioned", .fixed_order = true};
    const ReplicaChecksum sync = final_checksum(options);
    EXPECT_EQ(final_checksum(options), sync);
    for (const std::string& algorithm : {text("eager-quorum:", ranks), text("eager-deadline:", ranks, ",1h")}) {
      options.algorithm =
          algorithm == text("eager-deadline:", ranks, ",1h") ? text("eager-deadline:", ranks, ",3600s") : algorithm;
      EXPECT_EQ(final_checksum(options), sync) << options.algorithm;
    }
  }
}

TEST_F(RunTest, HandingOverDuringTheBackwardPassHasTheSameBits) {
  // With a delay, however small, gradients are handed over after the backward pass.
  TrainOptions options{.ranks = 3, .epochs = 2, .fixed_order = true};
  const ReplicaChecksum overlapped = final_checksum(options);
  options.imbalance = "linear:1us..2us";
  EXPECT_EQ(final_checksum(options), overlapped);
}

TEST_F(RunTest, DividingByContributorsOrSamplesAtQuorumPIsTheSameAsByRanks) {
  // 64 batches of equal size over 2 ranks: each rank brings one batch of 4 samples to every round.
  TrainOptions options{
      .algorithm = "eager-quorum:2", .ranks = 2, .epochs = 4, .data = "partitioned", .fixed_order = true};
  const ReplicaChecksum by_ranks = final_checksum(options);
  options.normalize = Normalize::contributors;
  EXPECT_EQ(final_checksum(options), by_ranks);
  options.normalize = Normalize::samples;
  EXPECT_EQ(final_checksum(options), by_ranks) << "4 is a power of two: weighing and dividing round nothing";
}

TEST_F(RunTest, LocalWithOneStepIsSyncUpToRounding) {
  const TrainOptions sync{.ranks = 4, .epochs = 3};
  TrainOptions local = sync;
  local.algorithm = "local";
  local.sync_every = 1;
  const double expected = run(sync).loss.value();
  EXPECT_NEAR(run(local).loss.value(), expected, 1e-4 * expected);
  local.normalize = Normalize::samples;
  EXPECT_NEAR(run(local).loss.value(), expected, 1e-4 * expected);
}

TEST_F(RunTest, PostLocalIsLocalWithOneStepAsLongAsItLasts) {
  TrainOptions options{.algorithm = "local", .ranks = 3, .epochs = 3, .momentum = 0.9, .sync_every = 1};
  const ReplicaChecksum every_step = final_checksum(options);
  options.sync_every = 4;
  const ReplicaChecksum local = final_checksum(options);
  EXPECT_NE(local, every_step);
  options.algorithm_options = {{"post-local", "1000000"}};
  EXPECT_EQ(final_checksum(options), every_step) << "beyond the end of the run";
  options.algorithm_options = {{"post-local", "0"}};
  EXPECT_EQ(final_checksum(options), local);
  options.algorithm_options = {{"post-local", "24"}};
  EXPECT_NE(final_checksum(options), local);
}

TEST_F(RunTest, WagmaWithFullRoundsAloneIsLocalWithOneStep) {
  for (const int ranks : {2, 3, 4}) {
    TrainOptions options{.algorithm = "local", .ranks = ranks, .epochs = 3, .momentum = 0.9, .sync_every = 1};
    options.steps = 12;
    options.epochs = 0;
    const ReplicaChecksum local = final_checksum(options);
    for (const char* algorithm : {"wagma", "wagma-quorum"}) {
      options.algorithm = algorithm;
      options.sync_every = 0;
      options.data = "partitioned";
      options.algorithm_options = {{"tau", "1"}, {"average-momentum", "no"}};
      EXPECT_EQ(final_checksum(options), local) << algorithm << " on " << ranks << " ranks";
    }
  }
}

TEST_F(RunTest, WagmaInOneGroupIsSyncUpToRoundingWhereNobodyIsLate) {
  // A quorum of all ranks: everybody has come when a round starts, so that no sum is stale.
  const TrainOptions sync{.ranks = 4, .steps = 24};
  TrainOptions wagma = sync;
  wagma.algorithm = "wagma:4";
  wagma.algorithm_options = {{"group-quorum", "4"}, {"tau", "6"}};
  const double expected = run(sync).loss.value();
  EXPECT_NEAR(run(wagma).loss.value(), expected, 1e-4 * expected);
}

TEST_F(RunTest, WagmaQuorumKeepsTheMovementOfEveryStepAndThePapersRuleCountsWhatItLoses) {
  TrainOptions options{
      .algorithm = "wagma-quorum:2", .ranks = 4, .epochs = 5, .imbalance = "persistent:rank=1,delay=2ms"};
  for (const int seats : {0, 1, 2}) {
    options.seats = seats;
    for (const char* quorum : {"1", "2"}) {
      options.algorithm_options = {{"group-quorum", quorum}, {"tau", "50"}};
      const RunSummary s = run(options);
      EXPECT_TRUE(s.replicas_identical) << seats;
      EXPECT_NEAR(s.deposits.kept.value(), 80, 1e-3) << seats << " seats, a quorum of " << quorum;
    }
  }
  options.imbalance = "persistent:rank=1,delay=20ms";  // so that rounds are without it, also where all are slow
  options.algorithm_options = {{"stale", "mix"}, {"tau", "50"}, {"group-quorum", "1"}};
  EXPECT_LT(run(options).deposits.kept.value(), 79);
  options.algorithm = "sync";
  options.algorithm_options = {};
  EXPECT_FALSE(run(options).deposits.kept.has_value()) << "nothing can be lost, and nobody counts";
}

TEST_F(RunTest, WagmaRefusesOptionsThatModelsThatMoveDoNotHave) {
  for (const auto& [option, value] : {std::pair("publish", "after"), std::pair("group-sum", "newest")}) {
    TrainOptions options{.algorithm = "wagma-quorum", .ranks = 2, .algorithm_options = {{option, value}}};
    try {
      run(options);
      ADD_FAILURE() << option;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(text(option, " ", value, " with stale moves"))) << option;
    }
  }
}

TEST_F(RunTest, WagmaWithTheSumOfTheOwnIterationIsTheSameWhereNobodyIsLate) {
  TrainOptions options{.algorithm = "wagma:2", .ranks = 4, .steps = 24};
  for (const char* stale : {"mix", "carry"}) {
    options.algorithm_options = {{"group-quorum", "4"}, {"tau", "6"}, {"stale", stale}, {"group-sum", "newest"}};
    const ReplicaChecksum newest = final_checksum(options);
    options.algorithm_options.set("group-sum", "own");
    EXPECT_EQ(final_checksum(options), newest) << stale;
  }
}

TEST_F(RunTest, WagmaWithTheSumOfTheOwnIterationAppliesEveryBatch) {
  for (const char* algorithm : {"wagma", "wagma-quorum"}) {
    const RunSummary s = run({.algorithm = algorithm,
                              .ranks = 4,
                              .epochs = 5,
                              .imbalance = "persistent:rank=2,delay=1ms",
                              .algorithm_options = {{"group-sum", "own"}, {"stale", "mix"}, {"tau", "5"}}});
    EXPECT_EQ(s.deposits.applied, 80u) << algorithm;
    EXPECT_TRUE(s.replicas_identical) << algorithm;
  }
  EXPECT_THROW(run({.algorithm = "wagma", .ranks = 2, .algorithm_options = {{"group-sum", "own"}, {"tau", "1001"}}}),
               UsageError);
}

TEST_F(RunTest, WagmaOnSeveralBoardsAppliesEveryBatch) {
  for (const char* algorithm : {"wagma", "wagma:2", "wagma-quorum"}) {
    for (const int seats : {2, 3, 4}) {
      const RunSummary s = run({.algorithm = algorithm,
                                .ranks = 5,
                                .epochs = 5,
                                .imbalance = "persistent:rank=2,delay=1ms",
                                .seats = seats,
                                .algorithm_options = {{"tau", "4"}}});
      EXPECT_EQ(s.deposits.applied, 80u) << algorithm << ", seats " << seats;
      EXPECT_EQ(s.deposits.lost, 0u) << algorithm << ", seats " << seats;
      EXPECT_TRUE(s.replicas_identical) << algorithm << ", seats " << seats;
    }
  }
}

TEST_F(RunTest, LatestCountsTheRoundsItSkipsAndSynchronizesModels) {
  // Rank 0, which counts for all, is the one that is passed over.
  for (const char* late : {"persistent:rank=0,delay=3ms", "persistent:rank=2,delay=3ms"}) {
    for (const int seats : {0, 1}) {
      const RunSummary s = run({.algorithm = "eager-solo",
                                .ranks = 4,
                                .epochs = 8,
                                .imbalance = late,
                                .seats = seats,
                                .sync_every = 32,
                                .delivery = "latest"});
      EXPECT_EQ(s.deposits.made, 128u) << late;
      EXPECT_EQ(s.deposits.applied, 128u) << late;
      EXPECT_EQ(s.deposits.lost, 0u) << late;
      EXPECT_DOUBLE_EQ(s.throughput, 128 / s.wall_seconds) << late;
      EXPECT_TRUE(s.replicas_identical) << notices_;
    }
  }
}

TEST_F(RunTest, LearningRateFollowsBatchesApplied) {
  TrainOptions halved{.algorithm = "eager-quorum:3",
                      .ranks = 3,
                      .epochs = 2,
                      .lr = 0.1,
                      .lr_schedule = "decay:2@0",
                      .data = "partitioned",
                      .fixed_order = true};
  TrainOptions half = halved;
  half.lr = 0.05;
  half.lr_schedule = "constant";
  EXPECT_EQ(final_checksum(halved), final_checksum(half));
  halved.lr_schedule = "decay:2@5";
  EXPECT_NE(final_checksum(halved).parameters, final_checksum(half).parameters);
}

TEST_F(RunTest, ASlowRankDoesNotHoldTheOthersUp) {
  struct Shared {
    std::atomic<pid_t> slow{0};
    std::atomic<int> begun{0};  // by the others
  };
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto& shared = *new (memory) Shared;
  // One rank computes its first batch until the others are at their third: for ever, if they waited for it.
  const auto task = linear_task({.before_batch = [&](std::uint64_t step) {
    pid_t nobody = 0;
    shared.slow.compare_exchange_strong(nobody, ::getpid());
    if (shared.slow.load() != ::getpid()) ++shared.begun;
    while (step == 0 && shared.slow.load() == ::getpid() && shared.begun.load() < 6) std::this_thread::yield();
  }});
  EXPECT_EQ(run({.algorithm = "eager-solo", .ranks = 3, .epochs = 6}, *task).deposits.applied, 96u);
  ::munmap(memory, sizeof(Shared));

  const RunSummary s =
      run({.algorithm = "eager-solo", .ranks = 3, .epochs = 6, .imbalance = "persistent:rank=1,delay=20ms"});
  EXPECT_LT(s.ideal_seconds, s.sync_ideal_seconds);
  EXPECT_GE(s.sync_ideal_seconds, 32 * 0.020);
}

TEST_F(RunTest, APaceStretchesStepsAndIsToldApartFromComputing) {
  const RunSummary s =
      run({.ranks = 2, .steps = 10, .pace = std::chrono::milliseconds(1)}, *linear_task({.varied = true}));
  EXPECT_GE(s.wall_seconds, 10 * 0.004) << "4 rows a batch, 1 ms each";
  EXPECT_GE(s.sync_ideal_seconds, 10 * 0.004);
  EXPECT_GT(s.real_compute_share, 0);
}

TEST_F(RunTest, AGradientThatIsNotANumberStopsEverybody) {
  for (const char* algorithm : {"sync", "eager-solo", "eager-quorum", "local", "wagma", "wagma-quorum"}) {
    for (const char* imbalance : {"none", "linear:1us..2us"}) {
      try {
        run({.algorithm = algorithm, .ranks = 3, .epochs = 50, .imbalance = imbalance}, *linear_task({.poisoned = 17}));
        FAIL() << algorithm;
      } catch (const Failure& failure) {
        EXPECT_EQ(failure.error().code, Errc::aborted) << algorithm;
        EXPECT_THAT(failure.what(),
                    testing::MatchesRegex("the gradient of b \\(element 0 is nan\\) is not finite on rank [0-2], step "
                                          "[0-9]+ \\(batch [0-9]+\\); .*"))
            << algorithm;
      }
    }
  }
}

TEST_F(RunTest, AnExceptionOfTheModelStopsEverybodyAndIsPassedOn) {
  const auto task = linear_task({.before_batch = [](std::uint64_t step) {
    if (step == 7) throw std::runtime_error("no such word in the dictionary");
  }});
  try {
    run({.algorithm = "eager-quorum", .ranks = 3, .epochs = 50}, *task);
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.error().code, Errc::aborted);
    EXPECT_THAT(failure.what(), testing::MatchesRegex("rank [0-2]: no such word in the dictionary"));
  }
}

TEST_F(RunTest, AKilledRankIsNamed) {
  const auto task = linear_task({.before_batch = [](std::uint64_t step) {
    if (step == 12) ::raise(SIGKILL);
  }});
  const std::pair<const char*, int> cases[] = {{"sync", 0}, {"eager-solo", 0}, {"sync", 2}, {"eager-solo", 2}};
  for (const auto& [algorithm, seats] : cases) {
    const std::string out = folder(text(algorithm, seats));
    try {
      run({.algorithm = algorithm, .ranks = 3, .epochs = 50, .seats = seats, .out = out}, *task);
      FAIL();
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.error().code, Errc::lost_peer);
      EXPECT_THAT(failure.what(), testing::MatchesRegex("rank [0-2] was lost after [0-9]+ of 800 batches: ended by "
                                                        "signal 9 \\(Killed\\)"));
    }
    EXPECT_TRUE(fs::exists(out + "/trace.json")) << "what there is of it";
    EXPECT_FALSE(fs::exists(out + "/summary.json"));
  }
}

TEST_F(RunTest, LeavesARunFolder) {
  const std::string out = folder("kept");
  const RunSummary s = run({.algorithm = "eager-quorum", .ranks = 2, .epochs = 2, .out = out});
  EXPECT_EQ(nlohmann::json::parse(content_of(out + "/config.json")).at("algorithm"), "eager-quorum");
  EXPECT_EQ(nlohmann::json::parse(content_of(out + "/summary.json")).at("deposits").at("made"), 32);
  EXPECT_FALSE(nlohmann::json::parse(content_of(out + "/trace.json")).empty());
  std::size_t records = 0;
  for (const int rank : {0, 1}) {
    std::istringstream lines(content_of(text(out, "/records-", rank, ".jsonl")));
    for (std::string line; std::getline(lines, line); ++records) {
      EXPECT_EQ(nlohmann::json::parse(line).at("rank"), rank);
    }
  }
  EXPECT_EQ(records, 32u);
  EXPECT_EQ(s.lost_records, 0u);
  EXPECT_THAT(s.ledger, HasSubstr("fresh"));
}

TEST_F(RunTest, TellsHowMuchMemoryItTakes) {
  run({.algorithm = "eager-solo", .ranks = 2, .epochs = 1, .max_lag = 5});
  EXPECT_THAT(notices_,
              HasSubstr("gradients take 3.1 KiB a rank: 6 sets, and the results of 5 rounds, 6.1 KiB in all"));
}

TEST_F(RunTest, RefusesModelsThatDoNotFitIntoMemory) {
  ::setenv("STRETTO_SHM_LIMIT", "50000000", 1);
  try {
    run({.ranks = 2, .epochs = 1}, *linear_task({.samples = 8, .features = 1'000'000}));
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.error().code, Errc::unavailable);
    EXPECT_THAT(failure.what(),
                AllOf(HasSubstr("too little shared memory: \"partial allreduce of 2 buckets of 1000001 float32"),
                      HasSubstr("of 2 ranks needs 53.5 MiB, there are "), HasSubstr("take fewer ranks")));
  }
  ::unsetenv("STRETTO_SHM_LIMIT");
}

TEST_F(RunTest, RefusesBeforeAnythingIsStarted) {
  EXPECT_THROW(run({.ranks = 0}), UsageError);
  EXPECT_THROW(run({.ranks = 65}), UsageError) << "more ranks than samples";
  EXPECT_THROW(run({.algorithm = "eager-quorum:9", .ranks = 4}), UsageError);
  EXPECT_THROW(run({.out = "/proc/nowhere"}), UsageError);
}

}  // namespace
}  // namespace stretto
