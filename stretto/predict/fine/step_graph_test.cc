#include "stretto/predict/fine/step_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "stretto/base/words.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr double kMiB = 1 << 20;

Layer layer(double bytes, std::vector<int> after, double update = 1) {
  return {.name = "layer", .bytes = bytes, .forward = 1, .backward = 1, .update = update, .after = std::move(after)};
}

/// "F2": the forward operation of layer 2; with a prime for each GPU behind the first.
std::string name(const StepOperation& operation) {
  return text("DFBUG"[static_cast<int>(operation.kind)], operation.layer,
              std::string(static_cast<std::size_t>(operation.gpu), '\''));
}

/// "D0 > F0", one for each edge, in order of the operations.
std::vector<std::string> edges(const StepGraph& graph) {
  std::vector<std::string> edges;
  for (const StepOperation& operation : graph.operations())
    for (const std::uint32_t successor : graph.successors(operation))
      edges.push_back(name(operation) + " > " + name(graph.operations()[successor]));
  return edges;
}

const StepRules kServer{.download_seconds_per_byte = 1, .upload_seconds_per_byte = 1};

TEST(StepGraph, OfAChainLetsLayersTravelWhileOthersAreComputed) {
  const StepGraph graph({layer(1, {}), layer(1, {0})}, kServer);
  EXPECT_THAT(edges(graph), ElementsAre("D0 > F0", "D1 > F1", "F0 > F1", "F1 > B1", "B1 > B0", "B1 > U1", "B0 > U0",
                                        "U1 > G1", "U0 > G0"));
  EXPECT_THAT(graph.first(), ElementsAre(0, 1));
}

TEST(StepGraph, WithoutOverlapBeginsAPhaseWhenTheOneBeforeIsOver) {
  StepRules rules = kServer;
  rules.overlap = false;
  const StepGraph graph({layer(1, {}), layer(1, {0})}, rules);
  EXPECT_THAT(edges(graph),
              ElementsAre("D1 > F0", "F0 > F1", "F1 > B1", "B1 > B0", "B0 > U1", "B0 > U0", "U0 > G1", "U0 > G0"));
}

TEST(StepGraph, OfBranchesWaitsForBothBothWays) {
  // 0 is read by 1 and 2, which 3 reads; 4 is a second output, of 1.
  const StepGraph graph({layer(0, {}, 0), layer(0, {0}, 0), layer(0, {0}, 0), layer(0, {1, 2}, 0), layer(0, {1}, 0)},
                        kServer);
  EXPECT_THAT(edges(graph), ElementsAre("F0 > F1", "F0 > F2", "F1 > F3", "F1 > F4", "F2 > F3", "F3 > B4", "F3 > B3",
                                        "F4 > B4", "F4 > B3", "B4 > B1", "B3 > B2", "B3 > B1", "B2 > B0", "B1 > B0"));
}

TEST(StepGraph, LeavesOutTransfersOfNothingAndUpdatesWithoutTime) {
  const StepGraph graph({layer(1, {}, 0), layer(0, {0}, 1)}, kServer);
  EXPECT_THAT(edges(graph), ElementsAre("D0 > F0", "F0 > F1", "F1 > B1", "B1 > B0", "B1 > G1", "B0 > U0"));
}

TEST(StepGraph, OfAHostDownloadsOnceAndUploadsWhatAllHaveBrought) {
  StepRules rules = kServer;
  rules.gpus = 2;
  const StepGraph graph({layer(3, {}, 0)}, rules);
  EXPECT_THAT(edges(graph), ElementsAre("D0 > F0", "D0 > F0'", "F0 > B0", "B0 > U0", "F0' > B0'", "B0' > U0"));
  EXPECT_EQ(graph.operations()[0].link_seconds, 3);
}

TEST(StepGraph, OfAnAllreduceDownloadsNothingAndKeepsItsOrder) {
  const StepGraph graph({layer(1, {}, 0), layer(1, {}, 0), layer(1, {0, 1}, 0)},
                        {.upload_seconds_per_byte = 0.5, .allreduce = true});
  EXPECT_THAT(edges(graph), ElementsAre("F0 > F2", "F1 > F2", "F2 > B2", "B2 > B1", "B2 > B0", "B2 > U2", "B1 > U1",
                                        "B0 > U0", "U2 > U1", "U1 > U0"));
}

TEST(StepGraph, FillsBucketsAsDistributedDataParallelDoes) {
  StepRules rules = kServer;
  rules.buckets = true;
  std::vector<Layer> layers;
  for (int index = 0; index < 8; ++index)
    layers.push_back(
        layer(index < 6 ? 10 * kMiB : 0.5 * kMiB, index > 0 ? std::vector{index - 1} : std::vector<int>{}, 0));
  std::vector<double> sizes;
  const StepGraph graph(layers, rules);
  for (const StepOperation& operation : graph.operations())
    if (operation.kind == OperationKind::upload) sizes.push_back(operation.link_seconds / kMiB);
  EXPECT_THAT(sizes, ElementsAre(1, 30, 30));  // 0.5 + 0.5 fill the first; 10 + 10 are less than 25
}

}  // namespace
}  // namespace stretto
