#pragma once

#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/optim/adam.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "stretto/train/testing/torch_ranks.h"

namespace stretto {

inline constexpr std::uint64_t kSamples = 90;
inline constexpr int kBatch = 4;

/// For tests of a training loop of one's own: a folder for what it keeps.
class OwnLoopTest : public TorchRanksTest {
 protected:
  OwnLoopTest() { std::filesystem::remove_all(folder_); }
  ~OwnLoopTest() override { std::filesystem::remove_all(folder_); }

  const std::string folder_ =
      testing::TempDir() + "own_loop_" + testing::UnitTest::GetInstance()->current_test_info()->name();
};

/// Something to learn, with everything that has a state of its own.
struct Loop {
  explicit Loop(RankContext& rank, DistributedOptions options) {
    at::manual_seed(1);
    using torch::nn::Linear;
    net = torch::nn::Sequential(Linear(3, 8), torch::nn::BatchNorm1d(8), torch::nn::Dropout(0.2), Linear(8, 1));
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(net[0]->parameters());
    std::vector<at::Tensor> rest = net[1]->parameters();
    for (const at::Tensor& p : net[3]->parameters()) rest.push_back(p);
    groups.emplace_back(rest, std::make_unique<torch::optim::AdamOptions>(0.005));
    adam = std::make_shared<torch::optim::Adam>(groups, torch::optim::AdamOptions(0.01));
    optimizer = std::make_unique<DistributedOptimizer>(rank, net.ptr(), adam, std::move(options));
    at::manual_seed(50 + static_cast<std::uint64_t>(rank.rank()));
  }

  void backward(const Batch& batch) {
    std::vector<at::Tensor> x;
    for (const std::int64_t sample : batch.samples) {
      const auto t = static_cast<float>(sample);
      x.push_back(torch::tensor({std::sin(0.1f * t), std::cos(0.3f * t), 0.01f * t}));
    }
    const at::Tensor rows = torch::stack(x);
    (net->forward(rows) - rows.sum(1, true)).pow(2).mean().backward();
  }

  /// Weights, running statistics and moments.
  std::string bits() {
    std::string all = bits_of(*net);
    for (const auto& buffer : net->buffers()) {
      const at::Tensor flat = buffer.detach().contiguous();
      all.append(static_cast<const char*>(flat.data_ptr()), flat.nbytes());
    }
    return all + text(optimizer->replica().checksum().optimizer);
  }

  torch::nn::Sequential net{nullptr};
  std::shared_ptr<torch::optim::Adam> adam;
  std::unique_ptr<DistributedOptimizer> optimizer;
};

}  // namespace stretto
