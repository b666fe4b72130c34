#include "stretto/train/run_ranks.h"

#include <ATen/Parallel.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "stretto/base/machine/cores.h"
#include "stretto/train/distributed_optimizer.h"
#include "stretto/train/testing/captured.h"

namespace stretto {
namespace {

using testing::HasSubstr;

/// A product that LibTorch computes with all its threads.
at::Tensor large_product() {
  const at::Tensor a = at::rand({512, 512});
  return at::mm(a, a);
}

class RunRanksTest : public testing::Test {
 protected:
  RunRanksTest() { ::alarm(100); }
  ~RunRanksTest() override { ::alarm(0); }
};

/// Trains on data that main() has computed, with as many threads as it has used itself.
int train(RankContext& rank, const at::Tensor& data, int threads) {
  at::set_num_threads(threads);
  torch::nn::Linear net(512, 4);
  const auto sgd = std::make_shared<torch::optim::SGD>(net->parameters(), 1e-6);
  DistributedOptimizer optimizer(rank, net.ptr(), sgd, {.algorithm = "eager-quorum"});
  for (int step = 0; step < 5; ++step) {
    optimizer.zero_grad();
    (net->forward(data) - large_product().sum() * 1e-9).pow(2).mean().backward();
    optimizer.step();
  }
  optimizer.finish();
  return optimizer.replicas_identical() && optimizer.batches_applied() == 10 ? 0 : 1;
}

/// Each of these hung for ever in OpenMP, whose threads are not there in a forked process.
TEST_F(RunRanksTest, TrainsAfterLibTorchHasComputedInMain) {
  at::set_num_threads(4);
  const at::Tensor data = large_product() / 1e3;
  for (const int threads : {1, 4}) {
    EXPECT_EQ(run_ranks({.ranks = 2}, [&](RankContext& rank) { return train(rank, data, threads); }), 0) << threads;
  }
}

TEST_F(RunRanksTest, GivesEachRankItsShareOfTheCores) {
  for (const int ranks : {1, num_cores() + 1}) {
    const int share = ranks == 1 ? num_cores() : 1;
    EXPECT_EQ(run_ranks({.ranks = ranks}, [&](RankContext&) { return at::get_num_threads() == share ? 0 : 1; }), 0);
  }
}

TEST_F(RunRanksTest, LeavesTheNumberOfThreadsToTheEnvironment) {
  setenv("OMP_NUM_THREADS", "3", 1);
  at::set_num_threads(3);
  EXPECT_EQ(run_ranks({.ranks = num_cores() + 1}, [](RankContext&) { return at::get_num_threads() == 3 ? 0 : 1; }), 0);
  unsetenv("OMP_NUM_THREADS");
}

/// Every batch is applied once, and the program has done what it was to do.
TEST_F(RunRanksTest, GoesOnWithoutALostRank) {
  constexpr std::uint64_t kSamples = 400;
  const auto train = [](RankContext& rank) {
    const bool dies = rank.rank() == 1;
    torch::nn::Linear net(1, 1);
    const auto sgd = std::make_shared<torch::optim::SGD>(net->parameters(), 1e-4);
    DistributedOptimizer optimizer(rank, net.ptr(), sgd, {.algorithm = "eager-quorum"});
    for (const Batch& batch : optimizer.batches(kSamples, 4, {.epochs = 2})) {
      if (dies && optimizer.steps() == 10) ::raise(SIGKILL);
      net->forward(at::full({static_cast<std::int64_t>(batch.samples.size()), 1}, 1.0)).pow(2).mean().backward();
      optimizer.step();
    }
    optimizer.finish();
    const bool all = optimizer.batches_applied() == 200 && optimizer.ledger().batches() == 200;
    return all && optimizer.replicas_identical() ? 0 : 1;
  };
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_ranks({.ranks = 3, .least = 1}, train), 0);
  EXPECT_EQ(captured_stderr(), "stretto: rank 1 is lost: killed by SIGKILL; the others go on\n");
}

/// The status of a program, and the one line that says why.
TEST_F(RunRanksTest, EndsAProgram) {
  const auto status = [](int ranks, const RankMain& main, const char* line) {
    testing::internal::CaptureStderr();
    const int status = run_ranks({.ranks = ranks}, main);
    EXPECT_EQ(captured_stderr(), line);
    return status;
  };
  const auto lost = [](RankContext& rank) {
    if (rank.rank() == 0) kill(getpid(), SIGKILL);
    return 0;
  };
  EXPECT_EQ(status(
                2, [](RankContext&) { return 7; }, ""),
            1);
  EXPECT_EQ(status(0, lost, "stretto: 0 ranks: a job on one host has 1 to 1024\n"), 2);
  EXPECT_EQ(status(2, lost, "stretto: rank 0 is lost: killed by SIGKILL\n"), 3);
}

}  // namespace
}  // namespace stretto
