#include "stretto/train/ordering/graph_recorder.h"

#include <ATen/ATen.h>
#include <ATen/SequenceNumber.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/ordering/topo/plan.h"

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

using Pair = std::pair<std::uint32_t, std::uint32_t>;

std::vector<Pair> edges_of(const ExecutedGraph& graph) {
  std::vector<Pair> edges;
  for (const auto& [from, to] : graph.edges) edges.emplace_back(from, to);
  return edges;
}

std::vector<std::pair<std::uint32_t, std::string>> collectives_in(const ExecutedGraph& graph) {
  std::vector<std::pair<std::uint32_t, std::string>> all;
  for (const auto& [node, tensor] : graph.collectives) all.emplace_back(node, tensor.name);
  return all;
}

at::Tensor parameter(std::vector<std::int64_t> shape) {
  return at::ones(shape).set_requires_grad(true);
}

ReducedParameter reduced(const at::Tensor& tensor, const std::string& name) {
  return {tensor, {.name = name, .count = static_cast<std::uint64_t>(tensor.numel())}};
}

// The order in which tensors are reduced, one at a time.
std::vector<std::string> order_of(const ExecutedGraph& graph) {
  std::vector<std::string> names;
  for (const TensorDescription& tensor : plan_order(graph).tensors) names.push_back(tensor.name);
  return names;
}

TEST(GraphRecorder, PutsTheForwardPassTheLossAndTheBackwardPassTogether) {
  const at::Tensor w = parameter({3}), v = parameter({3});
  const GraphRecorder recorder({reduced(w, "w"), reduced(v, "v")});
  // Forward pass: product 0, sum 1, loss 2. Backward pass: loss 3, sum 4 and v 5, product 6 and w 7.
  const ExecutedGraph graph = recorder.graph_of(((w * at::full({3}, 2.0)) + v).sum());
  EXPECT_EQ(graph.num_nodes, 8u);
  EXPECT_THAT(edges_of(graph),
              UnorderedElementsAre(Pair(0, 1), Pair(1, 2), Pair(2, 3), Pair(3, 4), Pair(4, 5), Pair(4, 6), Pair(6, 7)));
  EXPECT_THAT(collectives_in(graph), UnorderedElementsAre(std::pair(5u, "v"), std::pair(7u, "w")));
  EXPECT_EQ(graph.collectives.front().tensor, (TensorDescription{.name = "v", .count = 3}));
}

TEST(GraphRecorder, HasEachParameterThatGetsAGradientOnce) {
  const at::Tensor shared = parameter({2}), unused = parameter({2}), foreign = parameter({2}), frozen = at::ones({2});
  const GraphRecorder recorder({reduced(shared, "shared"), reduced(unused, "unused"), reduced(frozen, "frozen")});
  const ExecutedGraph graph = recorder.graph_of((shared * foreign + shared * frozen).sum());
  EXPECT_THAT(order_of(graph), ElementsAre("shared"));
  EXPECT_THROW((void)recorder.graph_of(unused), UsageError);
  EXPECT_THROW((void)recorder.graph_of(frozen.sum()), UsageError);
}

TEST(GraphRecorder, ReducesFirstWhatTheBackwardPassComputesFirst) {
  std::vector<at::Tensor> weights;
  std::vector<ReducedParameter> all;
  for (int layer = 0; layer < 5; ++layer) {
    weights.push_back(parameter({2, 2}));
    all.push_back(reduced(weights.back(), std::to_string(layer)));
  }
  const GraphRecorder recorder(std::move(all));
  for (int step = 0; step < 2; ++step) {
    at::Tensor value = at::ones({1, 2});
    for (const at::Tensor& weight : weights) value = value.mm(weight).relu();
    EXPECT_THAT(order_of(recorder.graph_of(value.sum())), ElementsAre("4", "3", "2", "1", "0"));
  }
}

// A sum inside the model, as a module that has one reports it.
ModelCollectives::Use use(const std::string& name, const at::Tensor& result, std::uint64_t sequence) {
  ModelCollectives::Use made{.forward = {.name = name, .count = 1}, .sequence = sequence};
  made.node = result.grad_fn().get();
  if (made.node != nullptr) made.backward = TensorDescription{.name = name + " (backward)", .count = 1};
  return made;
}

TEST(GraphRecorder, WhatAPassHandsOverAfterASumComesAfterIt) {
  const auto collectives = std::make_shared<ModelCollectives>();
  collectives->record(true);
  const at::Tensor left = parameter({2}), right = parameter({2}), last = parameter({2});
  const GraphRecorder recorder({reduced(left, "left"), reduced(right, "right"), reduced(last, "last")}, collectives);
  const auto sum = [&](const std::string& name, const at::Tensor& input) {
    const std::uint64_t sequence = at::sequence_number::peek();
    at::Tensor result = input * at::ones({2});
    collectives->used(use(name, result, sequence));
    return result;
  };
  // Two branches that do not depend on each other, and a sum that autograd does not see.
  const at::Tensor a = sum("a", left.exp());
  {
    const at::NoGradGuard no_gradients;
    collectives->used(use("unseen", left * right, at::sequence_number::peek()));
  }
  const at::Tensor b = sum("b", right.exp());
  const ExecutedGraph graph = recorder.graph_of(((a + b) * last).sum());
  EXPECT_THAT(order_of(graph),
              ElementsAre("a", "unseen", "b", "last", "b (backward)", "a (backward)", "right", "left"));
  // One buffer each, but for gradients that wait for nothing in between.
  const OrderingPlan plan = plan_order(graph);
  EXPECT_THAT(plan.buffer_of, ElementsAre(0, 1, 2, 3, 3, 4, 4, 5));
}

TEST(GraphRecorder, ASumWhoseResultTheLossDoesNotReadIsThereAllTheSame) {
  const auto collectives = std::make_shared<ModelCollectives>();
  collectives->record(true);
  const at::Tensor w = parameter({2});
  const GraphRecorder recorder({reduced(w, "w")}, collectives);
  const at::Tensor loss = w.sum();
  const std::uint64_t sequence = at::sequence_number::peek();
  const at::Tensor unread = w.exp();
  collectives->used(use("unread", unread, sequence));
  EXPECT_THAT(order_of(recorder.graph_of(loss)), ElementsAre("unread", "w"));
}

TEST(GraphRecorder, AGraphMayBeDeep) {
  constexpr int kDeep = 50'000;
  const at::Tensor w = parameter({1});
  at::Tensor value = w;
  for (int i = 0; i < kDeep; ++i) value = value + 1;
  const ExecutedGraph graph = GraphRecorder({reduced(w, "w")}).graph_of(value);
  EXPECT_EQ(graph.num_nodes, 2u * kDeep + 1);
  EXPECT_THAT(order_of(graph), ElementsAre("w"));
}

}  // namespace
}  // namespace stretto
