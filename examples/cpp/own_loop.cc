// A training loop of one's own with all that such loops have: two groups of parameters, BatchNorm, dropout, gradients
// added up over two batches, clipping, a scheduler, evaluation, checkpoints. Killed at any moment, it goes on where its
// last checkpoint was: own_loop [FOLDER [ALGORITHM]]. docs/own_training_loop.md explains it part by part.

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/optim/schedulers/step_lr.h>
#include <torch/utils.h>

#include <cstdio>
#include <string>

#include "stretto/stretto.h"

namespace {

using torch::nn::functional::cross_entropy;

struct Data {
  at::Tensor points, which;
};

// Points on two spirals, half a turn apart, and which of them each lies on; the same on every rank.
Data two_spirals(std::int64_t size, std::uint64_t seed) {
  at::manual_seed(seed);
  const at::Tensor which = torch::randint(2, {size});
  const at::Tensor radius = torch::rand({size});
  const at::Tensor angle = 6 * radius + M_PI * which;
  return {torch::stack({radius * angle.cos(), radius * angle.sin()}, 1), which};
}

double accuracy(torch::nn::Sequential& net, const Data& data) {
  const at::NoGradGuard no_grad;
  net->eval();
  const at::Tensor right = net->forward(data.points).argmax(1).eq(data.which);
  net->train();
  return right.to(torch::kFloat).mean().item<double>();
}

int train(stretto::RankContext& rank, const std::string& folder, const std::string& algorithm) {
  const Data data = two_spirals(2000, 1), test = two_spirals(1000, 2);
  torch::nn::Sequential net(torch::nn::Linear(2, 64), torch::nn::BatchNorm1d(64), torch::nn::Tanh(),
                            torch::nn::Dropout(0.1), torch::nn::Linear(64, 32), torch::nn::Tanh(),
                            torch::nn::Linear(32, 2));
  // The weights of the first layer decay.
  std::vector<at::Tensor> others;
  for (std::size_t i = 1; i < net->size(); ++i) {
    for (const at::Tensor& parameter : net[i]->parameters()) others.push_back(parameter);
  }
  using Options = torch::optim::AdamOptions;
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(net[0]->parameters(), std::make_unique<Options>(Options(0.01).weight_decay(1e-4)));
  groups.emplace_back(others);
  auto adam = std::make_shared<torch::optim::Adam>(groups, Options(0.01));

  stretto::DistributedOptimizer optimizer(
      rank, net.ptr(), adam, {.algorithm = algorithm, .fixed_order = true, .clip_norm = 1, .full_every = 200});
  optimizer.follow(std::make_shared<torch::optim::StepLR>(*adam, 60, 0.7));  // its steps are of all ranks together
  optimizer.on_full_round([&] {  // every 200 batches: all ranks are alike, and nothing is pending
    if (!folder.empty()) optimizer.save(folder);
    if (rank.rank() != 0) return;
    std::printf("%5llu batches: %.1f %% right\n", static_cast<unsigned long long>(optimizer.batches_applied()),
                100 * accuracy(net, test));
  });

  at::manual_seed(100 + static_cast<std::uint64_t>(rank.rank()));  // dropout differs from rank to rank
  if (!folder.empty() && optimizer.load(folder) && rank.rank() == 0) {
    std::printf("goes on after %llu batches\n", static_cast<unsigned long long>(optimizer.batches_applied()));
  }
  for (const auto& batch : optimizer.batches(data.points.size(0), 20, {.epochs = 12, .seed = 7})) {
    const at::Tensor samples = torch::tensor(batch.samples);
    for (const at::Tensor& half : samples.chunk(2)) {  // as if a whole batch did not fit into memory
      optimizer.accumulate(half.data_ptr() == samples.data_ptr());
      (cross_entropy(net->forward(data.points.index_select(0, half)), data.which.index_select(0, half)) / 2).backward();
    }
    optimizer.step(batch.samples.size());
  }
  optimizer.finish();
  if (!folder.empty()) optimizer.save(folder);

  if (rank.rank() != 0) return 0;
  const double right = accuracy(net, test);
  optimizer.record("test accuracy", right);  // a column of `stretto compare --program`
  std::printf("%.1f %% right; replicas %s\n", 100 * right, optimizer.replicas_identical() ? "identical" : "DIFFER");
  optimizer.report();
  return right > 0.9 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  stretto::register_papers();  // ALGORITHM may be one of theirs
  return stretto::run_ranks({.ranks = 4}, [&](stretto::RankContext& rank) {
    return train(rank, argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "eager-quorum");
  });
}
