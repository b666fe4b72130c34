// DistributedOptimizer whose gradients are reduced in one order: the bits of fixed buckets, whichever order it is.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "stretto/train/distributed_optimizer.h"
#include "stretto/train/ordering/sync_batch_norm.h"
#include "stretto/train/testing/torch_ranks.h"

namespace stretto {
namespace {

using testing::HasSubstr;
using torch::nn::Linear;
using torch::nn::Sequential;

using OrderedOptimizerTest = TorchRanksTest;

DistributedOptions by_order(const std::string& ordering, bool overlap = false) {
  return {.algorithm = "sync",
          .fixed_order = true,
          .overlap = overlap,
          .algorithm_options = {{"ordering", ordering}},
          .bucket_bytes = 16};
}

TEST_F(OrderedOptimizerTest, EveryOrderTrainsToTheBitsOfNone) {
  for (const int ranks : {2, 3, 4}) {
    const auto train = [&](const DistributedOptions& options) {
      return run(ranks, [&](RankContext& rank) {
        Sequential net = make_net(1);
        DistributedOptimizer optimizer(rank, net.ptr(), sgd(*net), options);
        for (int batch = 0; batch < 6 + rank.rank(); ++batch) {  // ranks have different numbers of batches
          optimizer.zero_grad();
          loss_of(net, batch + 100 * rank.rank()).backward();
          optimizer.step();
        }
        optimizer.finish();
        EXPECT_TRUE(optimizer.replicas_identical());
        return bits_of(*net);
      });
    };
    const auto none = train(by_order("none"));
    EXPECT_EQ(none[0].size(), 26 * sizeof(float)) << none[0];
    for (const char* ordering : {"coordinator", "topo"}) {
      for (const bool overlap : {false, true}) {
        EXPECT_EQ(train(by_order(ordering, overlap)), none) << ordering << " on " << ranks << " ranks";
      }
    }
  }
}

Sequential summing_net() {
  at::manual_seed(3);
  Sequential net(Linear(3, 4), SyncBatchNorm(4), Linear(4, 2));
  plug_in(*net, std::make_shared<ModelCollectives>());
  return net;
}

TEST_F(OrderedOptimizerTest, AModelThatSumsInItsPassesTrainsToTheSameBitsInEveryOrder) {
  const auto train = [](const DistributedOptions& options) {
    return run(3, [&](RankContext& rank) {
      Sequential net = summing_net();
      DistributedOptimizer optimizer(rank, net.ptr(), sgd(*net), options);
      for (int batch = 0; batch < 5; ++batch) {
        optimizer.zero_grad();
        loss_of(net, batch + 100 * rank.rank()).backward();
        optimizer.step();
      }
      optimizer.finish();
      return bits_of(*net);
    });
  };
  const auto by_itself = train({.algorithm = "sync", .fixed_order = true});
  EXPECT_EQ(by_itself[0], by_itself[2]);
  for (const char* ordering : {"coordinator", "topo"}) EXPECT_EQ(train(by_order(ordering)), by_itself) << ordering;
}

TEST_F(OrderedOptimizerTest, AModelThatSumsInItsPassesIsRefusedWhereNobodyOrders) {
  for (const DistributedOptions& options :
       {by_order("none"), DistributedOptions{.algorithm = "eager-quorum"}, DistributedOptions{.algorithm = "local"}}) {
    const auto reports = outcome(2, [&](RankContext& rank) {
      Sequential net = summing_net();
      DistributedOptimizer optimizer(rank, net.ptr(), sgd(*net), options);
      return std::string("accepted");
    });
    for (const std::string& report : reports) {
      EXPECT_THAT(report, HasSubstr("a model that sums over the ranks while it computes, under algorithm " +
                                    options.algorithm + ": expected sync with an ordering"));
    }
  }
}

TEST_F(OrderedOptimizerTest, RefusesOptionsThatDoNotFitEachOther) {
  const auto complaint = [](const DistributedOptions& options) {
    return outcome(1, [&](RankContext& rank) {
      Sequential net = make_net(2);
      DistributedOptimizer optimizer(rank, net.ptr(), sgd(*net), options);
      return std::string("accepted");
    })[0];
  };
  EXPECT_THAT(complaint(by_order("alphabetic")), HasSubstr("alphabetic"));
  EXPECT_THAT(complaint({.algorithm = "sync", .algorithm_options = {{"cycle-time", "1ms"}}}),
              HasSubstr("cycle-time 1ms with ordering none: expected one that orders, such as --ordering topo"));
  EXPECT_THAT(complaint({.algorithm = "eager-solo", .algorithm_options = {{"ordering", "topo"}}}),
              HasSubstr("ordering topo with algorithm 'eager-solo'"));
  EXPECT_THAT(complaint({.algorithm = "sync",
                         .algorithm_options = {{"ordering", "topo"}, {"background-only", "yes"}},
                         .progress_by = ProgressBy::application}),
              HasSubstr("background-only yes with progress-by application: expected progress-by thread"));
}

}  // namespace
}  // namespace stretto
