#pragma once

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/train/distributed_optimizer.h"

namespace stretto {

/// For tests: a small model, its optimizer, and a loss that follows from the number of the batch.
inline torch::nn::Sequential make_net(std::uint64_t seed) {
  at::manual_seed(seed);
  return torch::nn::Sequential(torch::nn::Linear(3, 4), torch::nn::Tanh(), torch::nn::Linear(4, 2));
}

inline std::shared_ptr<torch::optim::Optimizer> sgd(torch::nn::Module& model) {
  return std::make_shared<torch::optim::SGD>(model.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
}

inline at::Tensor loss_of(torch::nn::Sequential& net, int batch) {
  at::manual_seed(1000 + static_cast<std::uint64_t>(batch));
  return (net->forward(torch::randn({4, 3})) - 1).pow(2).mean();
}

inline std::string bits_of(torch::nn::Module& model) {
  std::string bits;
  for (const auto& p : model.parameters()) {
    const at::Tensor flat = p.detach().contiguous();
    bits.append(static_cast<const char*>(flat.data_ptr()), flat.nbytes());
  }
  return bits;
}

/// For tests: ranks in processes of their own. What fails on a rank fails the test.
class TorchRanksTest : public testing::Test {
 protected:
  static inline const std::string kFailed = "failed: ";

  TorchRanksTest() { ::alarm(110); }
  ~TorchRanksTest() override { ::alarm(0); }

  /// Runs `main` on each rank, and returns its results. An exception fails the test.
  static std::vector<std::string> run(int ranks, const std::function<std::string(RankContext&)>& main) {
    auto reports = outcome(ranks, main);
    for (const std::string& report : reports) EXPECT_FALSE(report.starts_with(kFailed)) << report;
    return reports;
  }

  /// The same, with "failed: " and the text of an exception where one ended a rank.
  static std::vector<std::string> outcome(int ranks, const std::function<std::string(RankContext&)>& main) {
    const std::string broken = "an expectation failed on a rank; ";
    const auto num_failures = [] {
      int failures = 0;
      const testing::TestResult& result = *testing::UnitTest::GetInstance()->current_test_info()->result();
      for (int i = 0; i < result.total_part_count(); ++i) failures += result.GetTestPartResult(i).failed() ? 1 : 0;
      return failures;
    };
    const int before = num_failures();
    const JobResult job = run_job({.ranks = ranks}, [&](RankContext& rank) {
                            at::set_num_threads(1);
                            std::string said;
                            try {
                              said = main(rank);
                            } catch (const std::exception& error) {
                              said = kFailed + error.what();
                            }
                            rank.report(num_failures() > before ? broken + said : said);
                            return 0;
                          }).or_throw();
    for (int rank = 0; rank < ranks; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      EXPECT_EQ(job.exit_status[r], 0) << "rank " << rank;
      EXPECT_FALSE(job.reports[r].starts_with(broken)) << "rank " << rank << ": " << job.reports[r];
    }
    return job.reports;
  }
};

}  // namespace stretto
