#include "stretto/train/profile.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <chrono>
#include <string>
#include <thread>

#include "stretto/base/error.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;
using namespace std::chrono_literals;

constexpr auto kSleep = 100ms;                                           // far longer than what a layer computes
constexpr double kSlow = std::chrono::duration<double>(kSleep).count();  // seconds; a sleep is never shorter

/// Two branches of convolutions that are put together, as in Inception. The branch "five" is slow forward, "head" is
/// slow backward.
struct Branching final : torch::nn::Module {
  torch::nn::Conv2d stem = convolution("stem", 3, 4, 1);
  torch::nn::Conv2d one = convolution("one", 4, 2, 1);
  torch::nn::Conv2d reduce = convolution("reduce", 4, 2, 1);
  torch::nn::Conv2d five = convolution("five", 2, 3, 5);
  torch::nn::Linear head = register_module("head", torch::nn::Linear(9, 2));
  torch::nn::Linear unused = register_module("unused", torch::nn::Linear(2, 2));

  torch::nn::Conv2d convolution(const char* name, int in, int out, int kernel) {
    return register_module(name, torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, kernel).padding(kernel / 2)));
  }

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor begin = stem->forward(x).relu();
    const at::Tensor left = one->forward(begin).relu();
    const at::Tensor middle = reduce->forward(begin).relu();
    std::this_thread::sleep_for(kSleep);
    const at::Tensor right = five->forward(middle).relu();
    const at::Tensor together = at::cat({left, right, begin}, 1).mean({2, 3});
    at::Tensor out = head->forward(together);
    out.register_hook([](const at::Tensor& gradient) {
      std::this_thread::sleep_for(kSleep);
      return gradient;
    });
    return out;
  }
};

at::Tensor loss_of_branches(Branching& model, int step) {
  at::manual_seed(static_cast<std::uint64_t>(step));
  return model.forward(at::randn({2, 3, 6, 6})).square().mean();
}

class Profiled : public testing::Test {
 protected:
  TrainingProfile profile(const ProfileOptions& options) {
    return profile_training(
        model_, sgd_, [this](int step) { return loss_of_branches(model_, step); }, options);
  }

  Branching model_;
  torch::optim::SGD sgd_{model_.parameters(), torch::optim::SGDOptions(0.01).momentum(0.9)};
};

TEST_F(Profiled, BranchesAreFound) {
  const TrainingProfile profile = this->profile({.warm_up = 1, .traced = 1, .steps = 3});
  ASSERT_EQ(profile.steps.size(), 3u);
  const ProfiledStep& step = profile.steps.front();
  std::vector<std::string> names;
  std::vector<double> bytes;
  for (const Layer& layer : step) {
    names.push_back(layer.name);
    bytes.push_back(layer.bytes);
  }
  EXPECT_THAT(names, ElementsAre("stem", "one", "reduce", "five", "cat", "head"));
  EXPECT_THAT(bytes, ElementsAre(4 * 16, 4 * 10, 4 * 10, 4 * 153, 0, 4 * 20));
  EXPECT_THAT(step[0].after, IsEmpty());
  EXPECT_THAT(step[1].after, ElementsAre(0));
  EXPECT_THAT(step[2].after, ElementsAre(0));
  EXPECT_THAT(step[3].after, ElementsAre(2));
  EXPECT_THAT(step[4].after, ElementsAre(0, 1, 3));
  EXPECT_THAT(step[5].after, ElementsAre(4));
  EXPECT_THAT(profile.unused, ElementsAre("unused.weight", "unused.bias"));
}

/// Where the machine has held up another layer for longer, the model is profiled again, until the slow layer has most
/// of the time or the watchdog ends the test.
TEST_F(Profiled, ASlowLayerIsSlow) {
  for (bool most = false; !most;) {
    const TrainingProfile profile = this->profile({.warm_up = 1, .traced = 2, .steps = 2});
    most = true;
    for (const ProfiledStep& step : profile.steps) {
      double forward = 0, backward = 0, update = 0;
      for (const Layer& layer : step) {
        EXPECT_GE(layer.forward, 0) << layer.name;
        EXPECT_GE(layer.backward, 0) << layer.name;
        EXPECT_GE(layer.update, 0) << layer.name;
        forward += layer.forward;
        backward += layer.backward;
        update += layer.update;
      }
      EXPECT_GE(forward, kSlow);
      EXPECT_GE(backward, kSlow);
      EXPECT_GT(update, 0);
      EXPECT_GE(step[5].backward, kSlow);  // the hook runs before the layer's gradients are ready
      most = most && step[3].forward >= 0.5 * forward;
    }
  }
}

TEST_F(Profiled, TrainsTheModel) {
  const at::Tensor before = model_.head->weight.detach().clone();
  profile({.warm_up = 1, .traced = 1, .steps = 1});
  EXPECT_FALSE(before.equal(model_.head->weight));
}

TEST_F(Profiled, CostIsARatioOfEachPair) {
  const auto ratios = profiling_cost(
      model_, sgd_, [this](int step) { return loss_of_branches(model_, step); }, 3, 1);
  ASSERT_EQ(ratios.size(), 3u);
  for (const double ratio : ratios) EXPECT_GT(ratio, 0);
}

TEST_F(Profiled, WhatCannotBeProfiledIsRefused) {
  EXPECT_THAT([&] { profile({.steps = 0}); }, ThrowsMessage<UsageError>(HasSubstr("steps 0")));
  const auto constant = [](int) { return at::ones({}); };
  EXPECT_THAT([&] { profile_training(model_, sgd_, constant); },
              ThrowsMessage<UsageError>(HasSubstr("the loss of step 0 has no gradient")));
  const auto other = [this](int step) {
    return step < 5 ? loss_of_branches(model_, step) : model_.head->forward(at::ones({1, 9})).sum();
  };
  EXPECT_THAT([&] { profile_training(model_, sgd_, other, {.warm_up = 4, .traced = 2}); },
              ThrowsMessage<Failure>(HasSubstr("step 5 has other layers")));
  torch::nn::Module empty;
  EXPECT_THAT([&] { profile_training(empty, sgd_, constant); },
              ThrowsMessage<UsageError>(HasSubstr("no parameter that requires a gradient")));
}

}  // namespace
}  // namespace stretto
