// A generator learns to draw numbers as a discriminator sees them: normal, of mean 3 and deviation 0.5. Two networks,
// two optimizers, and both of them exchange gradients with the other ranks.

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/utils.h>

#include <cmath>
#include <cstdio>

#include "stretto/stretto.h"

namespace {

namespace F = torch::nn::functional;

constexpr std::int64_t kBatch = 64;

torch::nn::Sequential network(std::int64_t inputs) {
  return torch::nn::Sequential(torch::nn::Linear(inputs, 32), torch::nn::Tanh(), torch::nn::Linear(32, 1));
}

int train(stretto::RankContext& rank) {
  at::manual_seed(1);
  auto generator = network(4), discriminator = network(1);
  const auto adam = [](torch::nn::Sequential& net) {
    return std::make_shared<torch::optim::Adam>(net->parameters(), torch::optim::AdamOptions(1e-3).betas({0.5, 0.9}));
  };
  stretto::DistributedOptimizer of_generator(rank, generator.ptr(), adam(generator));
  stretto::DistributedOptimizer of_discriminator(rank, discriminator.ptr(), adam(discriminator));
  at::manual_seed(100 + static_cast<std::uint64_t>(rank.rank()));  // each rank draws its own numbers
  const at::Tensor yes = torch::ones({kBatch, 1}), no = torch::zeros({kBatch, 1});
  for (int step = 0; step < 1000; ++step) {
    const at::Tensor real = 3 + 0.5 * torch::randn({kBatch, 1});
    const at::Tensor drawn = generator->forward(torch::randn({kBatch, 4}));
    of_discriminator.zero_grad();  // also of what the generator's backward pass has left
    (F::binary_cross_entropy_with_logits(discriminator->forward(real), yes) +
     F::binary_cross_entropy_with_logits(discriminator->forward(drawn.detach()), no))
        .backward();
    of_discriminator.step();
    of_generator.zero_grad();
    F::binary_cross_entropy_with_logits(discriminator->forward(drawn), yes).backward();
    of_generator.step();
  }
  of_generator.finish();
  of_discriminator.finish();
  if (rank.rank() != 0) return 0;
  const at::NoGradGuard no_grad;
  const double mean = generator->forward(torch::randn({4000, 4})).mean().item<double>();
  of_generator.record("error of the mean", std::abs(mean - 3));
  std::printf("draws numbers of mean %.2f, wanted 3\n", mean);
  return std::abs(mean - 3) < 1 ? 0 : 1;
}

}  // namespace

int main() {
  return stretto::run_ranks({.ranks = 4}, train);
}
