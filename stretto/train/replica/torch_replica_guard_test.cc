// What a user may do to a model that is wrapped, and the replica must notice.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/embedding.h>
#include <torch/optim/adam.h>
#include <torch/optim/lbfgs.h>
#include <torch/serialize.h>

#include <sstream>

#include "stretto/train/testing/torch_ranks.h"

namespace stretto {
namespace {

using testing::HasSubstr;
using torch::nn::Linear;
using torch::nn::Sequential;

class TorchReplicaGuard : public testing::Test {
 protected:
  TorchReplicaGuard() { at::set_num_threads(1); }

  // What a step says after `change`.
  static std::string after(const std::function<void(Sequential&, torch::optim::Optimizer&)>& change,
                           bool freeze_first = false) {
    Sequential net = make_net(1);
    if (freeze_first) net->parameters()[0].set_requires_grad(false);
    const auto optimizer = sgd(*net);
    TorchReplica replica(net.ptr(), optimizer);
    replica.attach_own();
    change(net, *optimizer);
    try {
      loss_of(net, 1).backward();
      replica.end_backward();
      replica.step();
    } catch (const UsageError& error) {
      return error.what();
    } catch (const c10::Error& error) {
      return "torch";
    }
    return "";
  }
};

TEST_F(TorchReplicaGuard, NamesTheParameterWhoseMemoryHasChanged) {
  EXPECT_EQ(after([](Sequential&, torch::optim::Optimizer&) {}), "");
  EXPECT_THAT(after([](Sequential& net, torch::optim::Optimizer&) {
                for (auto& p : net->parameters()) p.set_data(p.detach().clone());
              }),
              HasSubstr("parameter 2.bias lies in other memory"));
  EXPECT_THAT(after([](Sequential& net, torch::optim::Optimizer&) {
                std::stringstream saved;
                torch::save(make_net(2), saved);
                torch::load(net, saved);
              }),
              HasSubstr("parameter 2.bias lies in other memory"));
}

TEST_F(TorchReplicaGuard, NamesTheParameterWhoseTypeHasChanged) {
  Sequential net = make_net(1);
  TorchReplica replica(net.ptr(), sgd(*net));
  replica.attach_own();
  net->to(torch::kDouble);
  try {
    replica.end_backward();
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("has become Double and was Float"));
  }
}

TEST_F(TorchReplicaGuard, NamesWhatIsTrainedSince) {
  EXPECT_THAT(after([](Sequential& net, torch::optim::Optimizer&) { net->parameters()[0].set_requires_grad(true); },
                    /*freeze_first=*/true),
              HasSubstr("parameter 0.weight requires a gradient and did not"));
  EXPECT_THAT(
      after([](Sequential&, torch::optim::Optimizer& optimizer) {
        optimizer.add_param_group(torch::optim::OptimizerParamGroup({torch::ones({3}).set_requires_grad(true)}));
      }),
      HasSubstr("was given to the optimizer after it was wrapped"));
  EXPECT_EQ(after([](Sequential& net, torch::optim::Optimizer&) { net->parameters()[0].set_requires_grad(false); }), "")
      << "what is frozen stays, on every rank";
}

TEST_F(TorchReplicaGuard, ChecksumsAreOfWhatTheModelHolds) {
  Sequential net = make_net(1);
  TorchReplica replica(net.ptr(), sgd(*net));
  const auto before = replica.checksum();
  const torch::NoGradGuard no_grad;
  net->parameters()[2].set_data(net->parameters()[2].detach().clone().add_(1));
  EXPECT_NE(replica.checksum().parameters, before.parameters);
}

TEST_F(TorchReplicaGuard, RefusesWhatItCannotTrain) {
  Sequential net = make_net(1);
  EXPECT_THROW(TorchReplica(nullptr, sgd(*net)), UsageError);
  EXPECT_THROW(TorchReplica(net.ptr(), nullptr), UsageError);
  EXPECT_THROW(TorchReplica(net.ptr(), std::make_shared<torch::optim::LBFGS>(net->parameters())), UsageError);
  torch::nn::Embedding words(torch::nn::EmbeddingOptions(5, 2).sparse(true));
  TorchReplica replica(words.ptr(), std::make_shared<torch::optim::SGD>(words->parameters(), 0.1));
  replica.attach_own();
  replica.optimizer().zero_grad();
  words->forward(torch::tensor({1, 3})).sum().backward();
  try {
    replica.end_backward();
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the gradient of parameter weight is sparse"));
  }
}

TEST_F(TorchReplicaGuard, ShowsTheArraysOfTheOptimizersState) {
  const auto arrays_after_a_step = [](auto make_optimizer) {
    Sequential net = make_net(1);
    TorchReplica replica(net.ptr(), make_optimizer(net->parameters()));
    EXPECT_TRUE(replica.optimizer_arrays().empty());
    replica.attach_own();
    loss_of(net, 1).backward();
    replica.end_backward();
    replica.step();
    for (const auto& array : replica.optimizer_arrays()) std::memset(array.memory.data(), 0, array.memory.size());
    return std::pair(replica.optimizer_arrays().size(), net->parameters().size());
  };
  using Parameters = std::vector<at::Tensor>;
  using torch::optim::SGD, torch::optim::SGDOptions, torch::optim::Adam;
  const auto [momenta, weights] =
      arrays_after_a_step([](const Parameters& p) { return std::make_shared<SGD>(p, SGDOptions(0.1).momentum(0.9)); });
  EXPECT_EQ(momenta, weights);
  EXPECT_EQ(arrays_after_a_step([](const Parameters& p) { return std::make_shared<SGD>(p, 0.1); }).first, 0u);
  EXPECT_EQ(arrays_after_a_step([](const Parameters& p) { return std::make_shared<Adam>(p, 0.1); }).first, 2 * weights);
}

TEST_F(TorchReplicaGuard, StateOfAnOptimizerGoesOver) {
  const auto adam = [](Sequential& net) { return std::make_shared<torch::optim::Adam>(net->parameters(), 0.01); };
  Sequential a = make_net(1), b = make_net(1);
  TorchReplica of_a(a.ptr(), adam(a)), of_b(b.ptr(), adam(b));
  EXPECT_EQ(of_a.optimizer_state(), "");
  of_a.attach_own();
  loss_of(a, 1).backward();
  of_a.end_backward();
  of_a.step();
  EXPECT_NE(of_a.checksum().optimizer, of_b.checksum().optimizer);
  const std::string fresh = of_b.optimizer_state();
  of_b.set_optimizer_state(of_a.optimizer_state());
  EXPECT_EQ(of_a.checksum().optimizer, of_b.checksum().optimizer);
  of_b.set_optimizer_state(fresh);
  EXPECT_TRUE(of_b.optimizer().state().empty());
}

}  // namespace
}  // namespace stretto
