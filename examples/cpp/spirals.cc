// Four ranks learn to tell two spirals apart, and wait for two of them at most in a step.
// Start it as it is, or under mpirun with as many ranks as you like.

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "stretto/stretto.h"

namespace {

// Points on two spirals, half a turn apart, and which of them each lies on.
std::pair<at::Tensor, at::Tensor> draw_batch(std::int64_t size) {
  const at::Tensor which = torch::randint(2, {size});
  const at::Tensor radius = torch::rand({size});
  const at::Tensor angle = 6 * radius + M_PI * which;
  return {torch::stack({radius * angle.cos(), radius * angle.sin()}, 1), which};
}

int train(stretto::RankContext& rank) {
  torch::nn::Sequential net(torch::nn::Linear(2, 32), torch::nn::Tanh(), torch::nn::Linear(32, 32), torch::nn::Tanh(),
                            torch::nn::Linear(32, 2));
  auto sgd = std::make_shared<torch::optim::SGD>(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  stretto::DistributedOptimizer optimizer(rank, net.ptr(), sgd, {.algorithm = "eager-quorum"});

  at::manual_seed(100 + static_cast<std::uint64_t>(rank.rank()));
  for (int step = 0; step < 400; ++step) {
    const auto [x, y] = draw_batch(32);
    optimizer.zero_grad();
    torch::nn::functional::cross_entropy(net->forward(x), y).backward();
    if (rank.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2));  // a slow machine
    optimizer.step();
  }
  optimizer.finish();

  if (rank.rank() != 0) return 0;
  const auto [x, y] = draw_batch(2000);
  const auto accuracy = net->forward(x).argmax(1).eq(y).to(torch::kFloat).mean().item<double>();
  std::printf("%.1f %% of the points told apart; replicas %s\n%s", 100 * accuracy,
              optimizer.replicas_identical() ? "identical" : "DIFFER", optimizer.ledger().to_text().c_str());
  return accuracy > 0.6 && optimizer.replicas_identical() ? 0 : 1;
}

}  // namespace

int main() {
  return stretto::run_ranks({.ranks = 4}, train);
}
