// Gradients that are handed over one by one, and the graph by which they are ordered.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <map>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/ordering/topo/plan.h"
#include "stretto/train/ordering/sync_batch_norm.h"
#include "stretto/train/replica/torch_replica.h"

namespace stretto {
namespace {

using testing::ElementsAre;
using torch::nn::Linear;
using torch::nn::Sequential;

std::shared_ptr<torch::optim::Optimizer> plain_sgd(torch::nn::Module& model) {
  return std::make_shared<torch::optim::SGD>(model.parameters(), torch::optim::SGDOptions(0.1));
}

at::Tensor graph_loss(Sequential& net) {
  return net->forward(at::arange(6, at::kFloat).view({2, 3})).pow(2).mean();
}

class TorchReplicaGraph : public testing::Test {
 protected:
  TorchReplicaGraph() { at::set_num_threads(1); }
};

TEST_F(TorchReplicaGraph, NamesTheTrainedTensorsByNumber) {
  Sequential net(Linear(3, 4), Linear(4, 2));
  net->parameters()[0].set_requires_grad(false);
  const TorchReplica replica(net.ptr(), plain_sgd(*net), {.bucket_bytes = 40});
  ASSERT_EQ(replica.trained_tensors().size(), static_cast<std::size_t>(replica.num_trained()));
  std::vector<std::string> names;
  for (const TrainedTensor& tensor : replica.trained_tensors()) {
    names.push_back(tensor.name);
    EXPECT_LE(tensor.offset + tensor.count, replica.buckets()[static_cast<std::size_t>(tensor.bucket)].count);
    EXPECT_EQ(tensor.count, static_cast<std::uint64_t>(net->named_parameters()[tensor.name].numel()));
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("0.bias", "1.weight", "1.bias"));
}

TEST_F(TorchReplicaGraph, HandsEachGradientOverAsSoonAsItLiesInTheAttachedMemory) {
  Sequential net(Linear(3, 4), Linear(4, 2));
  TorchReplica replica(net.ptr(), plain_sgd(*net));
  std::vector<float> memory(replica.buckets()[0].count);
  const std::vector<std::span<std::byte>> spans{std::as_writable_bytes(std::span(memory))};
  std::vector<std::string> names;
  std::vector<std::vector<float>> values;
  replica.on_gradient_ready([&](int parameter) {
    const TrainedTensor& tensor = replica.trained_tensors()[static_cast<std::size_t>(parameter)];
    names.push_back(tensor.name);
    const auto first = memory.begin() + static_cast<std::ptrdiff_t>(tensor.offset);
    values.emplace_back(first, first + static_cast<std::ptrdiff_t>(tensor.count));
  });
  for (const bool dropped : {false, true}) {
    names.clear();
    values.clear();
    replica.attach(0, spans);
    if (dropped) replica.optimizer().zero_grad();
    graph_loss(net).backward();
    EXPECT_EQ(names.size(), 4u) << "in the backward pass";
    replica.end_backward();
    ASSERT_EQ(names.size(), 4u);
    for (std::size_t i = 0; i < names.size(); ++i) {
      const at::Tensor gradient = net->named_parameters()[names[i]].grad().flatten();
      EXPECT_EQ(values[i], std::vector<float>(gradient.const_data_ptr<float>(),
                                              gradient.const_data_ptr<float>() + gradient.numel()));
    }
    EXPECT_TRUE(names[0].starts_with("1.") && names[3].starts_with("0."));
  }
}

TEST_F(TorchReplicaGraph, NamesNoGradientThatIsNotThereAndAtTheEndOneAddedByHand) {
  Sequential net(Linear(3, 4), Linear(4, 2));
  Linear head(3, 1), other(3, 1);
  net->register_module("head", head.ptr());
  net->register_module("other", other.ptr());
  TorchReplica replica(net.ptr(), plain_sgd(*net));
  std::vector<std::string> names;
  replica.on_gradient_ready(
      [&](int parameter) { names.push_back(replica.trained_tensors()[static_cast<std::size_t>(parameter)].name); });
  replica.attach_own();
  head->forward(at::ones({1, 3})).sum().backward();
  EXPECT_EQ(names.size(), 2u);
  other->bias.mutable_grad().fill_(1);
  replica.end_backward();
  EXPECT_THAT(names, testing::UnorderedElementsAre("head.weight", "head.bias", "other.bias"));
}

TEST_F(TorchReplicaGraph, LeavesAGradientThatIsTakenAlone) {
  for (const bool taken : {true, false}) {
    Sequential net(Linear(3, 4), Linear(4, 2));
    TorchReplica replica(net.ptr(), plain_sgd(*net));
    std::vector<float> memory(replica.buckets()[0].count);
    const std::vector<std::span<std::byte>> spans{std::as_writable_bytes(std::span(memory))};
    replica.on_gradient_ready(
        [&](int parameter) {  // a sum comes at once
          const TrainedTensor& tensor = replica.trained_tensors()[static_cast<std::size_t>(parameter)];
          std::fill_n(memory.begin() + static_cast<std::ptrdiff_t>(tensor.offset), tensor.count, 7.0f);
        },
        taken);
    replica.attach(0, spans);
    graph_loss(net).backward();
    replica.end_backward();
    EXPECT_EQ(memory, std::vector<float>(memory.size(), 7.0f));
    EXPECT_EQ(replica.gradients_changed(), !taken);
    EXPECT_TRUE(replica.used(0));
  }
}

TEST_F(TorchReplicaGraph, SeveralPassesAreHandedOverInTheLastOne) {
  Sequential net(Linear(3, 4), Linear(4, 2));
  TorchReplica replica(net.ptr(), plain_sgd(*net));
  int ready = 0;
  replica.on_gradient_ready([&](int) { ++ready; });
  replica.attach_own();
  replica.accumulate(true);
  graph_loss(net).backward();
  EXPECT_EQ(ready, 0);
  replica.accumulate(false);
  graph_loss(net).backward();
  EXPECT_EQ(ready, 4);
  replica.end_backward();
  replica.attach_own();
  graph_loss(net).backward();
  graph_loss(net).backward();
  EXPECT_THROW(replica.end_backward(), UsageError);
}

TEST_F(TorchReplicaGraph, RecordsTheGraphOfAStepOnRequest) {
  Sequential net(Linear(3, 4), Linear(4, 2));
  TorchReplica replica(net.ptr(), plain_sgd(*net));
  EXPECT_EQ(replica.model_collectives(), nullptr);
  const auto step = [&] {
    replica.attach_own();
    replica.backward(graph_loss(net));
    replica.end_backward();
    replica.step();
  };
  step();
  EXPECT_FALSE(replica.take_graph());
  replica.record_graphs(true);
  step();
  const auto graph = replica.take_graph();
  ASSERT_TRUE(graph);
  EXPECT_FALSE(replica.take_graph()) << "it has been taken";
  // What a plan by it is: the parameters of the last layer first.
  const OrderingPlan plan = plan_order(*graph, {.fusion_bytes = 4 * 10});
  EXPECT_EQ(plan.tensors.size(), 4u);
  EXPECT_TRUE(plan.tensors[0].name.starts_with("1.") && plan.tensors[3].name.starts_with("0."));
  step();
  EXPECT_EQ(plan_order(*replica.take_graph(), {.fusion_bytes = 4 * 10}).fingerprint(0), plan.fingerprint(0));
  replica.record_graphs(false);
  step();
  EXPECT_FALSE(replica.take_graph());
}

// The order in which a rank really waits and hands over is one that the plan allows: whatever it hands over after it
// has waited for a sum inside the model lies in a later buffer.
TEST_F(TorchReplicaGraph, APlanPutsWhatComesAfterASumInsideTheModelIntoALaterBuffer) {
  Sequential net(Linear(3, 5), SyncBatchNorm(5), Linear(5, 4), SyncBatchNorm(4), Linear(4, 2));
  std::vector<std::pair<std::string, bool>> events;  // a tensor, and whether the rank waits for it
  plug_in(*net, std::make_shared<ModelCollectives>([&](const TensorDescription& tensor, std::span<std::byte>) {
    events.emplace_back(tensor.name, true);
  }));
  TorchReplica replica(net.ptr(), plain_sgd(*net));
  ASSERT_NE(replica.model_collectives(), nullptr);
  replica.on_gradient_ready([&](int parameter) {
    events.emplace_back(replica.trained_tensors()[static_cast<std::size_t>(parameter)].name, false);
  });
  replica.record_graphs(true);
  for (int step = 0; step < 2; ++step) {
    events.clear();
    replica.attach_own();
    replica.backward(graph_loss(net));
    replica.end_backward();
    const OrderingPlan plan = plan_order(*replica.take_graph());
    ASSERT_EQ(plan.tensors.size(), events.size());
    std::map<std::string, std::uint32_t> buffer_of;
    for (std::size_t id = 0; id < plan.tensors.size(); ++id) buffer_of[plan.tensors[id].name] = plan.buffer_of[id];
    EXPECT_EQ(buffer_of.size(), events.size());
    for (std::size_t i = 0; i < events.size(); ++i) {
      ASSERT_TRUE(buffer_of.contains(events[i].first)) << events[i].first;
      for (std::size_t j = i + 1; j < events.size(); ++j) {
        if (!events[i].second) continue;
        EXPECT_LT(buffer_of[events[i].first], buffer_of[events[j].first]) << events[i].first << ", " << events[j].first;
      }
    }
    EXPECT_EQ(events.front().first, "1.sums");
    EXPECT_EQ(plan.buffers.size(), 7u) << "the four sums, and the gradients between them";
  }
}

}  // namespace
}  // namespace stretto
