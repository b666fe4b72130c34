// Checkpoints of a training loop of one's own where members of the job change, and what goes on from them: ranks as
// processes, which count in how many results each sample is.

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <torch/optim/schedulers/step_lr.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "stretto/membership/changes.h"
#include "stretto/train/recipes/options/lr_schedule.h"
#include "stretto/train/testing/own_loop.h"

namespace stretto {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr std::uint64_t kEpochs = 8;
constexpr std::uint64_t kBatchesOfAll = kEpochs * kSamples / kBatch;
constexpr std::uint64_t kSaveEvery = 10;

/// A number for each sample, whose gradient is 1 where the sample is in a batch, and a buffer that counts them.
struct CountedModel : torch::nn::Module {
  CountedModel()
      : numbers(register_parameter("numbers", torch::zeros({static_cast<std::int64_t>(kSamples)}, at::kDouble))),
        counts(register_buffer("counts", torch::zeros({static_cast<std::int64_t>(kSamples)}, at::kLong))) {}
  at::Tensor numbers, counts;
};

/// Where ranks are killed, and where they save: in full rounds, or together(), with a batch in hand.
struct Kills {
  std::vector<std::uint64_t> at = {};   ///< who begins such a batch of all, from 1
  std::optional<int> before_save = {};  ///< the rank of this place as it saves for the second time
  std::optional<int> after_save = {};   ///< the same, behind save()
  std::uint64_t all_from = ~0ull;       ///< everybody, from such a batch on
  bool together = false;
};

class MembersCheckpoint : public OwnLoopTest {
 protected:
  MembersCheckpoint()
      : begun_(*new (::mmap(nullptr, sizeof(Begun), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
                   Begun(0)) {
    std::filesystem::create_directories(folder_);
  }
  ~MembersCheckpoint() override { ::munmap(&begun_, sizeof begun_); }
  MembersCheckpoint(const MembersCheckpoint&) = delete;
  MembersCheckpoint& operator=(const MembersCheckpoint&) = delete;

  /// What those that come to the end report: "good", or what is not, and behind it their weights and all that moves
  /// them. `least` 0: members stay the same.
  std::vector<std::string> train(int ranks, int least, const std::string& algorithm, const Kills& kills = {}) {
    begun_ = 0;
    const auto main = [&](RankContext& rank) {
      at::set_num_threads(1);
      rank.report(train_rank(rank, algorithm, kills));
      return 0;
    };
    const auto job = run_job({.ranks = ranks, .least = least, .tell = [](const std::string&) {}}, main).or_throw();
    std::vector<std::string> said;
    for (const std::string& report : job.reports) {
      if (!report.empty()) said.push_back(report);
    }
    return said;
  }
  std::uint64_t checkpoint_at() const {
    std::ifstream file(folder_ + "/checkpoint.json");
    const std::string json(std::istreambuf_iterator<char>(file), {});
    const std::size_t at = json.find("\"batches\":");
    return at == std::string::npos ? 0 : std::strtoull(json.c_str() + at + 10, nullptr, 10);
  }

  std::atomic<std::uint64_t>& begun() { return begun_; }

 private:
  using Begun = std::atomic<std::uint64_t>;

  std::string train_rank(RankContext& rank, const std::string& algorithm, const Kills& kills);
  std::string file_at(std::uint64_t batches) const { return text(folder_, "/bits-", batches); }

  Begun& begun_;  // batches, by all ranks' processes
};

std::string MembersCheckpoint::train_rank(RankContext& rank, const std::string& algorithm, const Kills& kills) {
  const auto net = std::make_shared<CountedModel>();
  const auto sgd = std::make_shared<torch::optim::SGD>(net->parameters(), torch::optim::SGDOptions(0.5).momentum(0.9));
  const std::uint64_t full_every = kills.together ? 0 : kSaveEvery;
  DistributedOptimizer optimizer(rank, net, sgd,
                                 {.algorithm = algorithm, .fixed_order = true, .full_every = full_every});
  const auto bits = [&] {
    std::string all = bits_of(*net);
    all.append(static_cast<const char*>(net->counts.data_ptr()), net->counts.nbytes());
    return all + text(optimizer.replica().checksum().optimizer, ' ', sgd->param_groups()[0].options().get_lr());
  };
  const bool counts = algorithm == "sync" || algorithm.starts_with("eager");
  optimizer.follow(std::make_shared<torch::optim::StepLR>(*sgd, 3, 0.9));
  int ranks = 0, saves = 0;
  optimizer.on_members([&](const NewMembers& members) { ranks = members.ranks; });
  optimizer.on_step([&] {
    if (counts) net->counts += (net->numbers.grad() * (ranks != 0 ? ranks : rank.size())).round().to(at::kLong);
  });
  std::string wrong;
  const auto kill_at = [&](std::optional<int> place) {
    if (place && saves == 2 && rank.changes()->place() == *place) ::raise(SIGKILL);
  };
  const auto save = [&] {
    ++saves;
    kill_at(kills.before_save);
    if (rank.rank() == 0) std::ofstream(file_at(optimizer.batches_applied())) << bits();
    optimizer.save(folder_);
    kill_at(kills.after_save);
  };
  if (!kills.together) optimizer.on_full_round(save);
  if (optimizer.load(folder_)) {
    std::ifstream file(file_at(optimizer.batches_applied()));
    if (bits() != std::string(std::istreambuf_iterator<char>(file), {})) wrong += "loaded other bits; ";
  }
  for (const Batch& batch : optimizer.batches(kSamples, kBatch, {.epochs = kEpochs, .data = "shared", .seed = 9})) {
    const std::uint64_t n = ++begun_;
    if (n >= kills.all_from || std::ranges::find(kills.at, n) != kills.at.end()) ::raise(SIGKILL);
    ::usleep(500);
    if (kills.together && optimizer.steps() % kSaveEvery == kSaveEvery - 1) optimizer.together(save);
    net->numbers.index_select(0, torch::tensor(batch.samples)).sum().backward();
    optimizer.step(batch.samples.size());
  }
  optimizer.finish();
  if (optimizer.batches_applied() != kBatchesOfAll) wrong += text(optimizer.batches_applied(), " batches applied; ");
  const bool once = net->counts.eq(static_cast<std::int64_t>(kEpochs)).all().item<bool>();  // each sample an epoch
  if (counts && !once) wrong += "samples lost or twice; ";
  if (!optimizer.replicas_identical()) wrong += "replicas differ; ";
  return (wrong.empty() ? "good" : wrong) + bits();
}

MATCHER(IsGood, "") {
  return arg.starts_with("good");
}

TEST_F(MembersCheckpoint, AJobOfOneGoesOnToTheBit) {
  const auto whole = train(1, 1, "sync");
  ASSERT_THAT(whole, testing::ElementsAre(IsGood()));
  for (const int least : {1, 0}) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    EXPECT_TRUE(train(1, 1, "sync", {.all_from = 33}).empty());
    EXPECT_EQ(checkpoint_at(), 30u);
    EXPECT_EQ(train(1, least, "sync"), whole) << "at least " << least;
  }
}

TEST_F(MembersCheckpoint, RanksAreLostAsItIsWritten) {
  for (const char* algorithm : {"sync", "eager-quorum", "eager-solo", "diloco", "local:quorum", "wagma"}) {
    for (const bool before : {true, false}) {
      for (const int place : {0, 2}) {
        std::filesystem::remove_all(folder_);
        std::filesystem::create_directories(folder_);
        Kills kills{.at = {25}};
        (before ? kills.before_save : kills.after_save) = place;
        const auto said = train(4, 1, algorithm, kills);
        EXPECT_THAT(said, Each(IsGood())) << algorithm << ", place " << place;
        EXPECT_GE(said.size(), 1u) << algorithm << ", place " << place;
        EXPECT_GT(checkpoint_at(), kBatchesOfAll / 2);
      }
    }
  }
}

TEST_F(MembersCheckpoint, RanksAreLostWhereAllAreTogether) {
  for (const char* algorithm : {"sync", "eager-quorum", "local"}) {
    for (const bool before : {true, false}) {
      std::filesystem::remove_all(folder_);
      std::filesystem::create_directories(folder_);
      Kills kills{.all_from = 90, .together = true};
      (before ? kills.before_save : kills.after_save) = 1;
      EXPECT_TRUE(train(3, 1, algorithm, kills).empty()) << algorithm;
      EXPECT_GE(checkpoint_at(), kSaveEvery) << algorithm;
      const auto said = train(2, 1, algorithm, {.together = true});
      EXPECT_THAT(said, testing::ElementsAre(IsGood(), IsGood())) << algorithm;
    }
  }
}

TEST_F(MembersCheckpoint, AnyNumberOfRanksGoOn) {
  for (const char* algorithm : {"sync", "eager-quorum", "eager-solo", "local"}) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    EXPECT_TRUE(train(4, 2, algorithm, {.at = {20}, .all_from = 45}).empty()) << algorithm;
    const std::uint64_t first = checkpoint_at();
    EXPECT_GE(first, kSaveEvery) << algorithm;
    EXPECT_TRUE(train(2, 1, algorithm, {.all_from = 40}).empty()) << algorithm;
    EXPECT_GT(checkpoint_at(), first) << algorithm;
    if (algorithm != std::string("local")) {  // members stay the same, and change again
      EXPECT_TRUE(train(3, 0, algorithm, {.all_from = 15}).empty()) << algorithm;
    }
    const auto said = train(3, 1, algorithm);
    EXPECT_EQ(said.size(), 3u) << algorithm;
    EXPECT_THAT(said, Each(IsGood())) << algorithm;
  }
}

TEST_F(MembersCheckpoint, OfRanksThatStayedGoesOnWhereMembersChange) {
  EXPECT_TRUE(train(3, 0, "eager-quorum", {.all_from = 50}).empty());
  EXPECT_GE(checkpoint_at(), kSaveEvery);
  const auto said = train(4, 1, "eager-quorum", {.at = {5}});
  EXPECT_EQ(said.size(), 3u);
  EXPECT_THAT(said, Each(IsGood()));
}

TEST_F(MembersCheckpoint, RanksThatBeginAJobHaveToLoadTheSame) {
  EXPECT_TRUE(train(2, 1, "sync", {.all_from = 30}).empty());
  const auto job = run_job({.ranks = 2, .least = 1, .tell = [](const std::string&) {}}, [&](RankContext& rank) {
                     at::set_num_threads(1);
                     const auto net = std::make_shared<CountedModel>();
                     const auto sgd = std::make_shared<torch::optim::SGD>(net->parameters(),
                                                                          torch::optim::SGDOptions(0.5).momentum(0.9));
                     DistributedOptimizer optimizer(rank, net, sgd, {.algorithm = "sync", .fixed_order = true});
                     if (rank.changes()->place() == 0) optimizer.load(folder_);
                     try {
                       optimizer.zero_grad();
                     } catch (const UsageError& error) {
                       rank.report(error.what());
                       return 1;
                     }
                     optimizer.finish();
                     rank.report("finished");
                     return 0;
                   }).or_throw();
  EXPECT_EQ(job.reports[0], "finished");
  EXPECT_THAT(job.reports[1], HasSubstr("in its checkpoint: on member 1 it is 'after 0 batches'"));
}

TEST_F(MembersCheckpoint, TheRateFollowsBatchesAndNotHowManyRanksThereAre) {
  const std::string schedule = "warmup:9+decay:2@14@20@25";
  const auto job =
      run_job({.ranks = 3, .least = 1, .tell = [](const std::string&) {}}, [&](RankContext& rank) {
        at::set_num_threads(1);
        const auto net = std::make_shared<CountedModel>();
        const auto sgd = std::make_shared<torch::optim::SGD>(net->parameters(), 0.5);
        DistributedOptimizer optimizer(rank, net, sgd, {.algorithm = "eager-quorum", .lr_schedule = schedule});
        const LrSchedule expected = LrSchedule::parse(schedule);
        std::string wrong;
        optimizer.on_step([&] {
          const double rate = sgd->param_groups()[0].options().get_lr();
          if (rate != 0.5 * expected.factor(optimizer.batches_applied(), 3)) wrong += text(rate, "; ");
        });
        for (const Batch& batch : optimizer.batches(kSamples, kBatch, {.epochs = kEpochs})) {
          const std::uint64_t n = ++begun();
          if (n == 20 || n == 50) ::raise(SIGKILL);
          net->numbers.index_select(0, torch::tensor(batch.samples)).sum().backward();
          optimizer.step();
        }
        optimizer.finish();
        if (!optimizer.replicas_identical()) wrong += "replicas differ";
        rank.report(text("good", wrong));
        return 0;
      }).or_throw();
  EXPECT_EQ(std::ranges::count(job.reports, "good"), 1);
  EXPECT_EQ(std::ranges::count(job.reports, ""), 2);
}

}  // namespace
}  // namespace stretto
