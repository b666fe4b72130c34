// Checkpoints of a training loop of one's own, and what goes on from them.

#include <gmock/gmock.h>
#include <torch/optim/adam.h>
#include <torch/optim/schedulers/step_lr.h>

#include <csignal>
#include <filesystem>

#include "stretto/train/testing/own_loop.h"

namespace stretto {
namespace {

using testing::HasSubstr;
using torch::nn::Sequential;

using OwnLoopCheckpoint = OwnLoopTest;

/// Trains with a checkpoint every 8 batches. `dies`: rank 1 is killed in its own step of that number, or −1. Returns
/// what each rank ends with, and the batches it has deposited, as "number:" each, which the log has beside.
std::vector<std::string> train(const std::string& folder, const std::string& algorithm, int dies,
                               std::vector<int>* status = nullptr) {
  const auto job = run_job({.ranks = 3, .tell = [](const std::string&) {}}, [&](RankContext& rank) {
                     at::set_num_threads(1);
                     Loop loop(rank, {.algorithm = algorithm, .fixed_order = true, .clip_norm = 1, .full_every = 8});
                     DistributedOptimizer& optimizer = *loop.optimizer;
                     optimizer.follow(std::make_shared<torch::optim::StepLR>(*loop.adam, 3, 0.9));
                     optimizer.on_full_round([&] { EXPECT_TRUE(optimizer.save(folder)); });
                     optimizer.load(folder);
                     const std::uint64_t before = optimizer.batches_applied();
                     auto batches = optimizer.batches(kSamples, kBatch, {.epochs = 3, .seed = 9});
                     for (const Batch& batch : batches) {
                       loop.net->train();
                       loop.backward(batch);
                       if (rank.rank() == 1 && static_cast<int>(optimizer.steps()) == dies) raise(SIGKILL);
                       optimizer.step(batch.samples.size());
                     }
                     optimizer.finish();
                     EXPECT_EQ(optimizer.ledger().batches(), 68u - before);
                     EXPECT_EQ(optimizer.ledger().lost_deposits(), 0);
                     EXPECT_TRUE(optimizer.replicas_identical());
                     EXPECT_EQ(optimizer.batches_applied(), 68u);
                     rank.report(testing::Test::HasFailure() ? "an expectation failed" : loop.bits());
                     return 0;
                   }).or_throw();
  if (status != nullptr) *status = job.exit_status;
  return job.reports;
}

TEST_F(OwnLoopCheckpoint, AKilledSyncLoopContinuesToTheBit) {
  std::vector<int> status;
  const auto whole = train(folder_ + "/whole", "sync", -1, &status);
  EXPECT_THAT(status, testing::Each(0));
  for (const std::string& report : whole) EXPECT_EQ(report, whole[0]);
  EXPECT_GT(whole[0].size(), 100u) << whole[0];
  for (const int dies : {0, 3, 11, 20}) {
    const std::string folder = folder_ + text("/killed-", dies);
    train(folder, "sync", dies, &status);
    EXPECT_EQ(status[1], 128 + SIGKILL);
    EXPECT_TRUE(train(folder, "sync", -1, &status) == whole) << dies;
    EXPECT_THAT(status, testing::Each(0));
  }
}

TEST_F(OwnLoopCheckpoint, DilocoGoesOnToTheBitWithItsOuterMomentum) {
  const auto train = [](const std::string& folder, std::uint64_t save_at) {
    return run(3, [&](RankContext& rank) {
      Sequential net = make_net(1);
      const auto plain = std::make_shared<torch::optim::SGD>(net->parameters(), 0.05);  // its state would be rank 0's
      DistributedOptimizer optimizer(rank, net.ptr(), plain,
                                     {.algorithm = "diloco", .full_every = 12, .sync_every = 2});
      optimizer.on_full_round([&] {
        if (optimizer.batches_applied() != save_at) return;
        EXPECT_TRUE(optimizer.save(folder));
      });
      EXPECT_EQ(optimizer.load(folder), save_at == 0);
      while (optimizer.steps() < 12) {
        loss_of(net, 100 * rank.rank() + static_cast<int>(optimizer.steps())).backward();
        optimizer.step();
      }
      optimizer.finish();
      return bits_of(*net);
    });
  };
  const auto whole = train(folder_, 12);
  EXPECT_EQ(whole[0], whole[1]);
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/stretto-recipe-12.bin"));
  EXPECT_TRUE(train(folder_, 0) == whole);
}

TEST_F(OwnLoopCheckpoint, AKilledEagerLoopLosesAndRepeatsNoBatch) {
  for (const char* algorithm : {"eager-quorum", "eager-solo", "local"}) {
    for (const int dies : {5, 17}) {
      std::vector<int> status;
      const std::string folder = folder_ + text('/', algorithm, dies);
      train(folder, algorithm, dies, &status);
      const auto reports = train(folder, algorithm, -1, &status);
      EXPECT_THAT(status, testing::Each(0)) << algorithm;
      for (const std::string& report : reports) {
        EXPECT_GT(report.size(), 100u) << report;
        EXPECT_TRUE(report == reports[0] || algorithm == std::string("local")) << algorithm;
      }
    }
  }
}

TEST_F(OwnLoopCheckpoint, PostLocalCountsTheBatchesBeforeTheCheckpoint) {
  const DistributedOptions options{.algorithm = "local", .sync_every = 4, .algorithm_options = {{"post-local", "20"}}};
  const auto step = [](Loop& loop) {
    loop.backward({.samples = {1, 2, 3}});
    loop.optimizer->step();
    return loop.optimizer->batches_applied();
  };
  run(2, [&](RankContext& rank) {
    {
      Loop loop(rank, options);
      for (int i = 0; i < 6; ++i) step(loop);
      loop.optimizer->finish();
      loop.optimizer->save(folder_);
    }
    Loop loop(rank, options);
    EXPECT_TRUE(loop.optimizer->load(folder_));
    for (const std::uint64_t applied : {14u, 16u, 18u, 20u, 20u, 20u, 20u, 28u}) EXPECT_EQ(step(loop), applied);
    loop.optimizer->finish();
    return std::string();
  });
}

TEST_F(OwnLoopCheckpoint, ACheckpointOfAnotherProgramIsRefused) {
  std::vector<int> status;
  train(folder_, "sync", -1, &status);
  // What all ranks say: one that is still in load() hears that another has stopped.
  const auto load_with = [&](const std::function<void(RankContext&)>& other) {
    std::string all;
    for (const std::string& said : outcome(3, [&](RankContext& rank) {
           other(rank);
           return std::string("accepted");
         })) {
      all += said + '\n';
    }
    return all;
  };
  EXPECT_THAT(
      load_with([&](RankContext& rank) {
        Sequential net = make_net(1);
        DistributedOptimizer(rank, net.ptr(), sgd(*net)).load(folder_);
      }),
      HasSubstr("it is of another program, with optimizer torch::optim::Adam where this one has torch::optim::SGD"));
  EXPECT_THAT(load_with([&](RankContext& rank) {
                Sequential net = make_net(1);
                auto adam = std::make_shared<torch::optim::Adam>(net->parameters());
                DistributedOptimizer(rank, net.ptr(), adam).load(folder_);
              }),
              HasSubstr("names, shapes or types of its model's parameters differ"));
  EXPECT_THAT(load_with([&](RankContext& rank) {
                Loop loop(rank, {.algorithm = "sync"});
                loop.optimizer->load(folder_);
                loop.optimizer->batches(kSamples + 1, kBatch);
              }),
              HasSubstr("checkpoint of a loop over other batches"));
  EXPECT_THAT(load_with([&](RankContext& rank) {
                Loop loop(rank, {.algorithm = "sync"});
                EXPECT_FALSE(loop.optimizer->load(folder_ + "/nothing"));
                loop.optimizer->finish();
              }),
              testing::StrEq("accepted\naccepted\naccepted\n"));
}

}  // namespace
}  // namespace stretto
