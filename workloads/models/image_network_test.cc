#include "workloads/models/image_network.h"

#include <ATen/Tensor.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>

#include "stretto/train/ordering/graph_recorder.h"

namespace stretto {
namespace {

std::int64_t num_parameters(const torch::nn::Module& model) {
  std::int64_t count = 0;
  for (const at::Tensor& parameter : model.parameters()) count += parameter.numel();
  return count;
}

TEST(ImageNetworks, HaveAsManyParametersAsPublished) {
  EXPECT_EQ(image_networks().size(), 9u);
  for (const NetworkInfo& info : image_networks())
    EXPECT_EQ(num_parameters(*info.make()), info.parameters) << info.name;
}

// Of one pass over images of `side` pixels.
AutogradWalk graph_of(ImageNetwork& network, std::int64_t side, at::Tensor& loss) {
  loss = network.loss(at::randn({2, 3, side, side}), at::zeros({2}, at::kLong));
  return walk_autograd(loss.grad_fn().get());
}

TEST(ImageNetworks, AGraphHasANodeForEachOperationAndParameter) {
  struct Counts {
    std::size_t network, convolutions, rectifiers, blocks;
  };
  for (const Counts& counts : {Counts{0, 20, 17, 8}, Counts{2, 53, 49, 16}}) {
    const NetworkInfo& info = image_networks()[counts.network];
    at::Tensor loss;
    const AutogradWalk walk = graph_of(*info.make(), 32, loss);
    // A convolution has its normalization behind it, and a block ends with a sum. Beside them pooling, mean,
    // flattening, the linear layer and the transposition of its weight, and two operations of the loss.
    const std::size_t operations = 2 * counts.convolutions + counts.rectifiers + counts.blocks + 7;
    // A weight a convolution; two parameters a normalization and for the linear layer.
    const std::size_t parameters = 3 * counts.convolutions + 2;
    EXPECT_EQ(walk.nodes.size(), operations + parameters) << info.name;
    // Each result but the loss is read once, but for that which goes into a block, which its sum reads, too, by way of
    // a convolution or not; and so is each parameter.
    EXPECT_EQ(walk.edges.size(), operations - 1 + counts.blocks + parameters) << info.name;
  }
}

TEST(ImageNetworks, EachParameterGetsAGradient) {
  for (const NetworkInfo& info : image_networks().first(3)) {
    const auto network = info.make();
    at::Tensor loss;
    const AutogradWalk walk = graph_of(*network, 32, loss);
    std::size_t leaves = 0;
    for (const auto* node : walk.nodes) leaves += is_leaf(*node) ? 1 : 0;
    EXPECT_EQ(leaves, network->parameters().size()) << info.name;
    EXPECT_TRUE(loss.isfinite().item<bool>());
  }
}

}  // namespace
}  // namespace stretto
