// What would let replicas part without a word, and what does not move.

#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/optim/adam.h>

#include "stretto/train/testing/torch_ranks.h"

namespace stretto {
namespace {

using testing::HasSubstr;
using torch::nn::Linear;
using torch::nn::Sequential;

using SameReplicasTest = TorchRanksTest;

TEST_F(SameReplicasTest, AModelMovedInTheLoopIsRefusedOnEveryRank) {
  for (const char* algorithm : {"eager-quorum", "sync", "local"}) {
    const auto reports = outcome(2, [&](RankContext& rank) {
      Sequential net = make_net(1);
      DistributedOptimizer optimizer(rank, net.ptr(), sgd(*net), {.algorithm = algorithm});
      for (int batch = 0; batch < 9; ++batch) {
        if (batch == 3 && rank.rank() == 1) {
          for (auto& p : net->parameters()) p.set_data(p.detach().clone());
        }
        loss_of(net, batch).backward();
        optimizer.step();
      }
      optimizer.finish();
      return std::string("finished");
    });
    EXPECT_THAT(reports[0], HasSubstr("rank 1 stopped the job: parameter 2.bias lies in other memory")) << algorithm;
    EXPECT_THAT(reports[1], HasSubstr("failed: parameter 2.bias lies in other memory")) << algorithm;
  }
}

TEST_F(SameReplicasTest, OptimizerStateIsThatOfRank0) {
  for (const bool of_rank_0 : {true, false}) {
    const auto reports = run(2, [&](RankContext& rank) {
      Sequential net = make_net(1);
      const auto adam = std::make_shared<torch::optim::Adam>(net->parameters(), 0.01);
      if ((rank.rank() == 0) == of_rank_0) {
        loss_of(net, 0).backward();
        adam->step();
        adam->zero_grad();
      }
      DistributedOptimizer optimizer(rank, net.ptr(), adam, {.algorithm = "sync"});
      EXPECT_EQ(adam->state().empty(), !of_rank_0);
      for (int batch = 0; batch < 4; ++batch) {
        loss_of(net, batch).backward();
        optimizer.step();
      }
      optimizer.finish();
      return bits_of(*net) + (optimizer.replicas_identical() ? "identical" : "different");
    });
    EXPECT_EQ(reports[0], reports[1]);
    EXPECT_TRUE(reports[0].ends_with("identical")) << reports[0];
  }
}

TEST_F(SameReplicasTest, ARateThatFollowsARanksOwnStepsIsNamed) {
  const auto reports = outcome(3, [&](RankContext& rank) {
    Sequential net = make_net(1);
    DistributedOptimizer optimizer(rank, net.ptr(), sgd(*net), {.algorithm = "eager-quorum"});
    for (int batch = 0; batch < 400; ++batch) {
      if (batch == 20 && rank.rank() == 2) optimizer.replica().optimizer().param_groups()[0].options().set_lr(0.025);
      loss_of(net, batch).backward();
      optimizer.step();
    }
    optimizer.finish();
    return std::string("finished");
  });
  for (const std::string& report : reports) EXPECT_THAT(report, HasSubstr(" has lr 0.")) << report;
  for (const std::string& report : reports) EXPECT_THAT(report, HasSubstr("0.025")) << report;
}

TEST_F(SameReplicasTest, RatesThatFollowTheRoundsAreNoDifference) {
  for (const bool scheduled : {true, false}) {
    const auto reports = run(3, [&](RankContext& rank) {
      Sequential net = make_net(1);
      DistributedOptimizer optimizer(
          rank, net.ptr(), sgd(*net),
          {.algorithm = "eager-solo", .lr_schedule = scheduled ? "decay:2@5@9" : "constant"});
      if (!scheduled) {
        optimizer.on_round([&](const RoundHeader&) {
          auto& options = optimizer.replica().optimizer().param_groups()[0].options();
          options.set_lr(options.get_lr() * 0.99);
        });
      }
      for (int batch = 0; batch < 40; ++batch) {
        loss_of(net, batch).backward();
        optimizer.step();
      }
      optimizer.finish();
      return bits_of(*net);
    });
    EXPECT_EQ(reports[0], reports[1]);
    EXPECT_EQ(reports[0], reports[2]);
  }
}

TEST_F(SameReplicasTest, FinishNamesTheReplicasThatDiffer) {
  for (const bool allowed : {false, true}) {
    const auto reports = outcome(3, [&](RankContext& rank) {
      Sequential net = make_net(1);
      DistributedOptimizer optimizer(rank, net.ptr(), sgd(*net), {.algorithm = "sync", .allow_different = allowed});
      loss_of(net, 1).backward();
      optimizer.step();
      if (rank.rank() != 1) {
        const torch::NoGradGuard no_grad;
        if (rank.rank() == 2) net->parameters()[1].add_(1);
      }
      optimizer.finish();
      return std::string(optimizer.replicas_identical() ? "identical" : "different");
    });
    for (const std::string& report : reports) {
      EXPECT_EQ(report, allowed ? "different"
                                : "failed: replicas differ from that of rank 0: rank 2; step() alone may move the "
                                  "weights, not that of the wrapped optimizer");
    }
  }
}

TEST_F(SameReplicasTest, AParameterThatNoRankUsesStaysAsItIs) {
  for (const char* algorithm : {"sync", "overlap", "eager-quorum", "local"}) {
    const bool overlap = algorithm == std::string("overlap");
    const auto reports = run(2, [&](RankContext& rank) {
      Sequential net = make_net(1);
      Linear unused(3, 2), sometimes(3, 2);
      net->push_back("unused", torch::nn::AnyModule(unused));
      net->push_back("sometimes", torch::nn::AnyModule(sometimes));
      const auto options = torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.1);
      DistributedOptimizer optimizer(rank, net.ptr(), std::make_shared<torch::optim::SGD>(net->parameters(), options),
                                     {.algorithm = overlap ? "sync" : algorithm, .overlap = overlap});
      const std::string before = bits_of(*unused), also_before = bits_of(*sometimes);
      for (int batch = 0; batch < 6; ++batch) {
        at::manual_seed(static_cast<std::uint64_t>(batch));
        const at::Tensor x = torch::randn({4, 3});
        at::Tensor loss = net[2]->as<Linear>()->forward(net[0]->as<Linear>()->forward(x)).pow(2).mean();
        if (rank.rank() == 1) loss = loss + sometimes->forward(x).pow(2).mean();
        loss.backward();
        optimizer.step();
      }
      optimizer.finish();
      EXPECT_EQ(bits_of(*unused), before) << algorithm;
      EXPECT_NE(bits_of(*sometimes), also_before) << algorithm;
      return bits_of(*net) + (optimizer.replicas_identical() ? "identical" : "different");
    });
    EXPECT_EQ(reports[0], reports[1]) << algorithm;
    EXPECT_TRUE(reports[0].ends_with("identical")) << algorithm << reports[0];
  }
}

TEST_F(SameReplicasTest, RunningVariancesAreThoseOverAllRanks) {
  const auto reports = run(2, [&](RankContext& rank) {
    Sequential net(Linear(3, 4), torch::nn::BatchNorm1d(4));
    DistributedOptimizer optimizer(rank, net.ptr(), sgd(*net), {.algorithm = "sync"});
    for (int batch = 0; batch <= rank.rank(); ++batch) {
      (net->forward(torch::randn({4, 3})) - 1).pow(2).mean().backward();
      optimizer.step();
    }
    const auto norm = net[1]->as<torch::nn::BatchNorm1d>();
    norm->running_mean.fill_(rank.rank() == 0 ? 1.0f : 4.0f);
    norm->running_var.fill_(rank.rank() == 0 ? 2.0f : 6.0f);
    optimizer.finish();
    return text(norm->running_mean[0].item<float>(), " ", norm->running_var[0].item<float>(), " ",
                norm->num_batches_tracked.item<std::int64_t>());
  });
  for (const std::string& report : reports) EXPECT_EQ(report, "2.5 6.25 2") << "(2 + 6) / 2 + 1.5 * 1.5";
}

TEST_F(SameReplicasTest, ALoopLeftBetweenBackwardAndStepFinishes) {
  for (const bool all : {true, false}) {
    for (const bool destructed : {false, true}) {
      const auto reports = run(3, [&](RankContext& rank) {
        Sequential net = make_net(1);
        {
          DistributedOptimizer optimizer(rank, net.ptr(), sgd(*net),
                                         {.algorithm = "sync", .overlap = true, .bucket_bytes = 1});
          for (int batch = 0; batch < 5; ++batch) {
            loss_of(net, batch).backward();
            if (batch == 3 && (all || rank.rank() == 1)) break;
            optimizer.step();
          }
          if (!destructed) {
            optimizer.finish();
            EXPECT_EQ(optimizer.batches_applied(), all ? 12u : 14u) << "the one that was begun, too";
            EXPECT_TRUE(optimizer.replicas_identical());
          }
        }
        return bits_of(*net);
      });
      EXPECT_EQ(reports[0], reports[1]);
      EXPECT_EQ(reports[0], reports[2]);
      EXPECT_EQ(reports[0].size(), 26 * sizeof(float)) << reports[0];
    }
  }
}

TEST_F(SameReplicasTest, OneRankMayLeaveItToTheDestructor) {
  for (const char* algorithm : {"eager-quorum", "sync", "local"}) {
    const auto reports = run(3, [&](RankContext& rank) {
      Sequential net = make_net(1);
      {
        DistributedOptimizer optimizer(rank, net.ptr(), sgd(*net), {.algorithm = algorithm});
        for (int batch = 0; batch < 4; ++batch) {
          loss_of(net, batch).backward();
          optimizer.step();
        }
        if (rank.rank() != 1) optimizer.finish();
      }
      return bits_of(*net);
    });
    EXPECT_EQ(reports[0], reports[1]) << algorithm;
    EXPECT_EQ(reports[0].size(), 26 * sizeof(float)) << reports[0];
  }
}

}  // namespace
}  // namespace stretto
