#include "stretto/train/profile/layer_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <span>

namespace stretto {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// A forward pass, operation by operation, as autograd records it.
class Graph {
 public:
  int parameter(int module) { return add({.module = module}); }
  int transposed(int parameter) { return add({.name = "t", .inputs = {parameter}, .reshapes = true}); }
  int operation(const char* name, std::vector<int> inputs) { return add({.name = name, .inputs = std::move(inputs)}); }
  /// A linear layer without bias: one weight, transposed.
  int linear(int module, std::vector<int> inputs) {
    inputs.push_back(transposed(parameter(module)));
    return operation("mm", std::move(inputs));
  }
  LayerMap map(const std::vector<ParameterModule>& modules) const { return map_layers(operations_, modules); }

 private:
  int add(Operation operation) {
    operations_.push_back(std::move(operation));
    return static_cast<int>(operations_.size()) - 1;
  }

  std::vector<Operation> operations_;
};

std::vector<std::string> names(const LayerMap& map) {
  std::vector<std::string> names;
  for (const Layer& layer : map.layers) names.push_back(layer.name);
  return names;
}

std::vector<int> after(const LayerMap& map, std::size_t layer) {
  return map.layers[layer].after;
}

TEST(LayerMap, OfAChainHasAModuleALayer) {
  Graph graph;
  const int hidden = graph.linear(0, {});
  const int relu = graph.operation("relu", {hidden});
  const int output = graph.linear(1, {relu});
  const int loss = graph.operation("mean", {output});
  const LayerMap map = graph.map({{"hidden", 40}, {"output", 8}});
  EXPECT_THAT(names(map), ElementsAre("hidden", "output"));
  EXPECT_EQ(map.layers[0].bytes, 40);
  EXPECT_EQ(map.layers[1].bytes, 8);
  EXPECT_THAT(after(map, 0), IsEmpty());
  EXPECT_THAT(after(map, 1), ElementsAre(0));
  EXPECT_EQ(map.layer_of[static_cast<std::size_t>(relu)], 0);
  EXPECT_EQ(map.layer_of[static_cast<std::size_t>(loss)], 1);
}

TEST(LayerMap, BranchesMeetInALayerOfTheirOwn) {
  Graph graph;
  const int stem = graph.linear(0, {});
  const int one = graph.linear(1, {stem});
  const int two = graph.linear(2, {graph.operation("relu", {graph.linear(3, {stem})})});
  const int cat = graph.operation("cat", {one, two, graph.operation("pool", {stem})});
  graph.linear(4, {cat});
  const LayerMap map = graph.map({{"stem", 1}, {"one", 2}, {"two", 3}, {"reduce", 4}, {"head", 5}});
  EXPECT_THAT(names(map), ElementsAre("stem", "one", "reduce", "two", "cat", "head"));
  EXPECT_THAT(after(map, 1), ElementsAre(0));
  EXPECT_THAT(after(map, 2), ElementsAre(0));
  EXPECT_THAT(after(map, 3), ElementsAre(2));
  EXPECT_THAT(after(map, 4), ElementsAre(0, 1, 3));
  EXPECT_EQ(map.layers[4].bytes, 0);
  EXPECT_THAT(after(map, 5), ElementsAre(4));
}

TEST(LayerMap, BranchesMayBeginAtTheInput) {
  Graph graph;  // no gradient of the input is needed: it is not in the graph
  graph.operation("cat", {graph.linear(0, {}), graph.linear(1, {})});
  const LayerMap map = graph.map({{"left", 1}, {"right", 2}});
  EXPECT_THAT(names(map), ElementsAre("left", "right", "cat"));
  EXPECT_THAT(after(map, 1), IsEmpty());
  EXPECT_THAT(after(map, 2), ElementsAre(0, 1));
}

TEST(LayerMap, AResidualAdditionBelongsToTheLayerThatComesLast) {
  Graph graph;
  const int stem = graph.linear(0, {});
  const int block = graph.linear(1, {stem});
  const int sum = graph.operation("add", {stem, block});
  graph.linear(2, {sum});
  const LayerMap map = graph.map({{"stem", 1}, {"block", 1}, {"head", 1}});
  EXPECT_THAT(names(map), ElementsAre("stem", "block", "head"));
  EXPECT_THAT(after(map, 2), ElementsAre(1));
}

TEST(LayerMap, ARecurrentLayerIsOne) {
  Graph graph;
  const int weight = graph.transposed(graph.parameter(0)), bias = graph.parameter(0);
  int state = graph.operation("addmm", {bias, weight});
  for (int step = 0; step < 3; ++step)
    state = graph.operation("addmm", {bias, graph.operation("tanh", {state}), weight});
  graph.linear(1, {state});
  EXPECT_THAT(names(graph.map({{"lstm", 1}, {"output", 1}})), ElementsAre("lstm", "output"));
}

TEST(LayerMap, ASharedParameterHasALayerForEachUse) {
  Graph graph;
  const int weight = graph.parameter(0);
  const int embedded = graph.operation("embedding", {weight});
  const int encoded = graph.linear(1, {embedded});
  graph.operation("mm", {encoded, graph.transposed(weight)});
  const LayerMap map = graph.map({{"embedding", 12}, {"encoder", 4}});
  EXPECT_THAT(names(map), ElementsAre("embedding", "encoder", "embedding (2)"));
  EXPECT_EQ(map.layers[0].bytes, 12);
  EXPECT_EQ(map.layers[2].bytes, 0);
  EXPECT_THAT(after(map, 2), ElementsAre(1));
}

TEST(LayerMap, AModuleThatNothingReadsHasNoLayer) {
  Graph graph;
  graph.linear(1, {});
  const LayerMap map = graph.map({{"unused", 3}, {"used", 4}});
  EXPECT_THAT(names(map), ElementsAre("used"));
  EXPECT_THAT(map.layer_of_module, ElementsAre(-1, 0));
}

const double kNever = std::nan("");

TEST(PassShares, DivideAPassAsItWasTraced) {
  PassShares shares({1, 1});
  const PassMark marks[] = {{1, 0}, {4, 1}};
  shares.add(marks, {kNever, kNever});
  EXPECT_THAT(shares.divide({kNever, kNever}, 8), ElementsAre(2, 6));
}

TEST(PassShares, WhatIsNotKnownBelongsToTheNextThatIs) {
  PassShares shares({1, 1});
  const PassMark marks[] = {{1, -1}, {2, 0}, {5, -1}, {6, 1}, {8, -1}};
  shares.add(marks, {kNever, kNever});
  EXPECT_THAT(shares.divide({kNever, kNever}, 8), ElementsAre(2, 6));
}

TEST(PassShares, KeepWhenGradientsWereReady) {
  PassShares shares({1, 1, 1});
  // Backward: layer 2 alone, then a part of layer 1 that holds nothing, then layer 0; a second of something behind it.
  const PassMark marks[] = {{1, 2}, {2, 1}, {4, 0}, {5, 0}};
  shares.add(marks, {4, kNever, 1});
  EXPECT_THAT(shares.divide({9, kNever, 3}, 10), ElementsAre(4 + 1, 2, 3));
}

TEST(PassShares, DivideAllAtOnceWhereTheOrderIsAnother) {
  PassShares shares({1, 1});
  const PassMark marks[] = {{1, 1}, {4, 0}};
  shares.add(marks, {4, 1});
  EXPECT_THAT(shares.divide({4, 6}, 8), ElementsAre(6, 2));
  EXPECT_THAT(shares.divide({kNever, 6}, 8), ElementsAre(6, 2));
}

TEST(PassShares, TakeTheMedianOfSeveralTraces) {
  PassShares shares({1, 1});
  const PassMark first[] = {{1, 0}, {4, 1}}, lost_its_core[] = {{900, 0}, {903, 1}}, third[] = {{3, 0}, {6, 1}};
  for (const auto& marks : {first, lost_its_core, third}) shares.add(std::span(marks, 2), {kNever, kNever});
  EXPECT_THAT(shares.divide({kNever, kNever}, 4), ElementsAre(2, 2));
}

TEST(PassShares, WithoutATraceGoByOtherNumbers) {
  PassShares shares({1, 3});
  EXPECT_THAT(shares.divide({kNever, kNever}, 8), ElementsAre(2, 6));
  shares.add({}, {kNever, kNever});
  EXPECT_THAT(shares.divide({kNever, kNever}, 8), ElementsAre(2, 6));
}

}  // namespace

}  // namespace stretto
