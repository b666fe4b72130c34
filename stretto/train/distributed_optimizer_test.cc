#include "stretto/train/distributed_optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/optim/adam.h>

#include <limits>

#include "stretto/base/error.h"
#include "stretto/train/job/run.h"
#include "stretto/train/job/task.h"
#include "stretto/train/testing/torch_ranks.h"

namespace stretto {
namespace {

using testing::HasSubstr;
using torch::nn::Linear;
using torch::nn::Sequential;

using DistributedOptimizerTest = TorchRanksTest;

TEST_F(DistributedOptimizerTest, RanksWithAnyNumberOfBatchesEndEqual) {
  for (const char* algorithm : {"sync", "eager-solo", "eager-quorum", "eager-quorum:3", "local", "wagma:2"}) {
    const auto reports = run(3, [&](RankContext& rank) {
      Sequential net = make_net(static_cast<std::uint64_t>(rank.rank()));  // rank 0's is what counts
      DistributedOptimizer optimizer(rank, net.ptr(), sgd(*net), {.algorithm = algorithm});
      for (int batch = 0; batch < 10 + 3 * rank.rank(); ++batch) {
        optimizer.zero_grad();
        loss_of(net, batch).backward();
        optimizer.step();
      }
      optimizer.finish();
      EXPECT_EQ(optimizer.batches_applied(), 39u);
      EXPECT_EQ(optimizer.ledger().batches(), 39u);
      EXPECT_EQ(optimizer.ledger().lost_deposits(), 0);
      return bits_of(*net) + (optimizer.replicas_identical() ? "identical" : "different");
    });
    for (const std::string& report : reports) EXPECT_EQ(report, reports[0]) << algorithm;
    EXPECT_TRUE(reports[0].ends_with("identical")) << reports[0];
  }
}

TEST_F(DistributedOptimizerTest, OneRankTrainsAsTheOptimizerAloneDoes) {
  for (const char* algorithm : {"sync", "eager-solo"}) {
    const auto reports = run(1, [&](RankContext& rank) {
      Sequential net = make_net(5), plain = make_net(5);
      const auto plain_optimizer = std::make_shared<torch::optim::Adam>(plain->parameters(), 0.01);
      DistributedOptimizer optimizer(rank, net.ptr(), std::make_shared<torch::optim::Adam>(net->parameters(), 0.01),
                                     {.algorithm = algorithm});
      for (int batch = 0; batch < 8; ++batch) {
        if (batch % 2 == 0) optimizer.replica().optimizer().zero_grad(/*set_to_none=*/true);
        loss_of(net, batch).backward();
        EXPECT_EQ(optimizer.step(4), 1);
        plain_optimizer->zero_grad();
        loss_of(plain, batch).backward();
        plain_optimizer->step();
      }
      optimizer.finish();
      return std::string(bits_of(*net) == bits_of(*plain) ? "same" : "other");
    });
    EXPECT_EQ(reports[0], "same") << algorithm;
  }
}

TEST_F(DistributedOptimizerTest, OverlappingHasTheSameBits) {
  const auto train = [](const DistributedOptions& options) {
    return run(3, [&](RankContext& rank) {
      Sequential net = make_net(1);
      DistributedOptimizer optimizer(rank, net.ptr(), sgd(*net), options);
      for (int batch = 0; batch < 12; ++batch) {
        loss_of(net, batch + 100 * rank.rank()).backward();
        optimizer.step();
      }
      optimizer.finish();
      return bits_of(*net);
    });
  };
  DistributedOptions options{.algorithm = "sync", .bucket_bytes = 1};
  const auto after = train(options);
  options.overlap = true;
  const auto during = train(options);
  EXPECT_EQ(during, after);
  EXPECT_EQ(during[0], during[2]);
  EXPECT_EQ(during[0].size(), 26 * sizeof(float)) << during[0];
}

TEST_F(DistributedOptimizerTest, WeighsBatchesBySamples) {
  // Two ranks, 1 and 3 samples: the same as one gradient of four.
  const auto reports = run(2, [&](RankContext& rank) {
    Linear net(1, 1);
    torch::NoGradGuard no_grad;
    net->weight.fill_(0);
    net->bias.fill_(0);
    auto plain = std::make_shared<torch::optim::SGD>(net->parameters(), 1.0);
    DistributedOptimizer optimizer(rank, net.ptr(), plain, {.algorithm = "sync", .normalize = Normalize::samples});
    at::AutoGradMode grad(true);
    const at::Tensor x = rank.rank() == 0 ? torch::full({1, 1}, 8.0f) : torch::full({3, 1}, 4.0f);
    net->forward(x).mean().backward();
    optimizer.step(static_cast<std::uint64_t>(x.size(0)));
    optimizer.finish();
    return text(net->weight.item<float>());
  });
  EXPECT_EQ(reports[0], "-5") << "(8 + 3·4) / 4";
  EXPECT_EQ(reports[1], "-5");
}

TEST_F(DistributedOptimizerTest, CallsHooksOnAllRanksAlike) {
  const auto reports = run(2, [&](RankContext& rank) {
    Sequential net = make_net(2);
    DistributedOptimizer optimizer(rank, net.ptr(), sgd(*net), {.algorithm = "eager-solo"});
    std::string seen;
    int steps = 0, rounds = 0;
    std::uint64_t batches = 0;
    optimizer.on_round([&](const RoundHeader& header) {
      seen += text(header.batches, ",");
      batches += header.batches;
      if (header.batches > 0) ++rounds;
    });
    optimizer.on_step([&] { ++steps; });
    for (int batch = 0; batch < 5; ++batch) {
      loss_of(net, batch).backward();
      optimizer.step();
    }
    optimizer.finish();
    EXPECT_EQ(batches, 10u);
    EXPECT_EQ(steps, rounds) << "one a round that moves the weights";
    return seen;
  });
  EXPECT_EQ(reports[0], reports[1]);
}

TEST_F(DistributedOptimizerTest, AGradientThatIsNotFiniteFailsOnEveryRank) {
  const auto reports = outcome(3, [&](RankContext& rank) {
    Sequential net = make_net(2);
    DistributedOptimizer optimizer(rank, net.ptr(), sgd(*net), {.algorithm = "sync"});
    for (int batch = 0; batch < 50; ++batch) {
      const float factor = rank.rank() == 1 && batch == 4 ? std::numeric_limits<float>::infinity() : 1.0f;
      (loss_of(net, batch) * factor).backward();
      optimizer.step();
    }
    optimizer.finish();
    return std::string("finished");
  });
  for (const std::string& report : reports) {
    EXPECT_THAT(report, HasSubstr("is not finite on rank 1, step 4; a smaller learning rate may help"));
  }
}

TEST_F(DistributedOptimizerTest, AnExceptionInOneLoopStopsTheOthers) {
  const auto reports = outcome(3, [&](RankContext& rank) {
    Sequential net = make_net(2);
    DistributedOptimizer optimizer(rank, net.ptr(), sgd(*net), {.algorithm = "eager-quorum"});
    for (int batch = 0; batch < 50; ++batch) {
      if (rank.rank() == 2 && batch == 6) throw std::runtime_error("out of words");
      loss_of(net, batch).backward();
      optimizer.step();
    }
    optimizer.finish();
    return std::string("finished");
  });
  EXPECT_EQ(reports[2], "failed: out of words");
  EXPECT_EQ(reports[0], "failed: rank 2 stopped the job: an exception has ended this rank's loop");
  EXPECT_EQ(reports[1], reports[0]);
}

TEST_F(DistributedOptimizerTest, TheDestructorFinishes) {
  const auto reports = run(2, [&](RankContext& rank) {
    Sequential net = make_net(2);
    {
      DistributedOptimizer optimizer(rank, net.ptr(), sgd(*net), {.algorithm = "eager-solo"});
      for (int batch = 0; batch < 3 + 4 * rank.rank(); ++batch) {
        loss_of(net, batch).backward();
        optimizer.step();
      }
    }
    return bits_of(*net);
  });
  EXPECT_EQ(reports[0], reports[1]);
}

/// The settings in which a loop may call the wrapped optimizer by mistake.
const std::vector<DistributedOptions>& mistaken_settings() {
  static const std::vector<DistributedOptions> all{{.algorithm = "sync"},
                                                   {.algorithm = "sync", .overlap = true, .bucket_bytes = 1},
                                                   {.algorithm = "eager-quorum"},
                                                   {.algorithm = "local", .sync_every = 2}};
  return all;
}

TEST_F(DistributedOptimizerTest, NamesTheRankThatCallsTheWrappedOptimizersOwnStep) {
  for (const DistributedOptions& options : mistaken_settings()) {
    for (const bool before_step : {true, false}) {
      const auto reports = outcome(3, [&](RankContext& rank) {
        Sequential net = make_net(2);
        const auto wrapped = sgd(*net);
        DistributedOptimizer optimizer(rank, net.ptr(), wrapped, options);
        for (int batch = 0; batch < 6; ++batch) {
          const bool by_mistake = rank.rank() == 1 && batch == 3;
          loss_of(net, batch).backward();
          if (by_mistake && before_step) wrapped->step();
          optimizer.step();
          if (by_mistake && !before_step) wrapped->step();
        }
        optimizer.finish();
        return std::string("finished");
      });
      // Averaged models end equal all the same. Else a round that compares the weights tells, or finish().
      const bool harmless = options.algorithm == "local";
      for (const std::string& report : reports) {
        EXPECT_THAT(report, HasSubstr(harmless ? "finished" : "rank 1"))
            << options.algorithm << options.overlap << before_step;
        EXPECT_THAT(report, HasSubstr(harmless ? "finished" : "step() alone may move "));
      }
    }
  }
}

TEST_F(DistributedOptimizerTest, TheWrappedOptimizersOwnZeroGradDoesNoHarm) {
  for (const DistributedOptions& options : mistaken_settings()) {
    for (const bool set_to_none : {true, false}) {
      const auto reports = run(3, [&](RankContext& rank) {
        Sequential net = make_net(2);
        const auto wrapped = sgd(*net);
        DistributedOptimizer optimizer(rank, net.ptr(), wrapped, options);
        for (int batch = 0; batch < 6; ++batch) {
          wrapped->zero_grad(set_to_none);
          loss_of(net, batch + 10 * rank.rank()).backward();
          optimizer.step();
        }
        // Between the two it takes this rank's gradient away, or what of it has not been handed over.
        loss_of(net, 99).backward();
        if (rank.rank() == 1) wrapped->zero_grad(set_to_none);
        optimizer.step();
        optimizer.finish();
        EXPECT_EQ(optimizer.batches_applied(), 21u);
        return bits_of(*net);
      });
      EXPECT_EQ(reports[0], reports[1]) << options.algorithm;
      EXPECT_EQ(reports[0], reports[2]) << options.algorithm;
      EXPECT_EQ(reports[0].size(), 26 * sizeof(float)) << options.algorithm << ": " << reports[0];
    }
  }
}

TEST_F(DistributedOptimizerTest, RefusesWhatDoesNotFit) {
  const auto complaint = [](int ranks, const DistributedOptions& options) {
    return outcome(ranks, [&](RankContext& rank) {
      Sequential net = make_net(2);
      DistributedOptions mine = options;
      if (rank.rank() == 1) mine.max_lag = 7;
      DistributedOptimizer optimizer(rank, net.ptr(), sgd(*net), mine);
      optimizer.finish();
      optimizer.step();
      return std::string("accepted");
    });
  };
  EXPECT_THAT(complaint(1, {.algorithm = "best"})[0], HasSubstr("unknown algorithm 'best': Known: sync, eager-solo"));
  EXPECT_THAT(complaint(1, {.algorithm = "eager-qorum:1"})[0],
              HasSubstr("unknown algorithm 'eager-qorum:1': did you mean eager-quorum? Known: sync, "));
  EXPECT_THAT(complaint(1, {.algorithm = "local", .normalize = Normalize::ranks})[0],
              HasSubstr("normalize ranks with algorithm 'local'"));
  for (const Normalize normalize : {Normalize::contributors, Normalize::samples}) {
    EXPECT_THAT(complaint(1, {.algorithm = "local", .normalize = normalize})[0], HasSubstr("step() after finish()"));
  }
  EXPECT_THAT(complaint(1, {.max_lag = 0})[0], HasSubstr("max-lag 0"));
  EXPECT_THAT(complaint(1, {.normalize = Normalize::samples, .overlap = true})[0], HasSubstr("overlap"));
  EXPECT_THAT(complaint(1, {.algorithm = "eager-solo", .overlap = true})[0],
              HasSubstr("overlap with algorithm 'eager"));
  EXPECT_THAT(complaint(1, {.algorithm = "local", .overlap = true})[0], HasSubstr("overlap with algorithm 'local'"));
  EXPECT_THAT(complaint(1, {.algorithm = "sync", .quorum = 1})[0], HasSubstr("quorum 1 with algorithm 'sync'"));
  EXPECT_THAT(complaint(1, {.algorithm = "eager-quorum:1", .quorum = 1})[0], HasSubstr("quorum 1 with"));
  EXPECT_THAT(complaint(1, {.algorithm = "sync", .sync_every = 5})[0], HasSubstr("sync_every 5 with algorithm 'sync'"));
  EXPECT_THAT(
      complaint(1, {.algorithm = "sync", .seed = 5})[0],
      HasSubstr("seed 5 with algorithm 'sync', which draws nothing: expected majority, gossip-grad or ad-psgd"));
  for (const char* algorithm : {"eager-majority", "local:majority", "gossip-grad", "ad-psgd"}) {
    EXPECT_THAT(complaint(1, {.algorithm = algorithm, .seed = 5})[0], HasSubstr("step() after finish()")) << algorithm;
  }
  EXPECT_THAT(complaint(1, {.algorithm = "eager-solo", .algorithm_options = {{"post-local", "5"}}})[0],
              HasSubstr("post-local 5 with algorithm 'eager-solo': expected rounds"));
  EXPECT_THAT(complaint(2, {})[0], HasSubstr("rank 1 differs from rank 0 in its options"));
  EXPECT_THAT(complaint(1, {})[0], HasSubstr("step() after finish()"));
}

// A model with running statistics, trained by the trainer: the ranks of the command, in small.
class NormalizedTask final : public TrainingTask {
 public:
  NormalizedTask()
      : facts_{.name = "normalized", .samples = 48, .batch = 4, .lr = 0.02, .momentum = 0.9, .epochs = 4} {}
  const TaskFacts& facts() const override { return facts_; }
  std::unique_ptr<RankTask> start_rank(const RankTaskOptions& options) const override {
    at::set_num_threads(1);
    at::manual_seed(options.seed);
    return std::make_unique<Rank>(options);
  }

 private:
  class Rank final : public RankTask {
   public:
    explicit Rank(const RankTaskOptions& options)
        : net_(Linear(3, 4), torch::nn::BatchNorm1d(4), Linear(4, 1)),
          replica_(net_.ptr(),
                   std::make_shared<torch::optim::SGD>(net_->parameters(),
                                                       torch::optim::SGDOptions(options.lr).momentum(options.momentum)),
                   {.bucket_bytes = 16}) {}
    Replica& replica() override { return replica_; }
    double forward_backward(std::span<const std::uint32_t> samples, std::uint64_t) override {
      net_->train();
      const at::Tensor loss = loss_over({samples.begin(), samples.end()});
      loss.backward();
      return loss.item<double>();
    }
    TaskScore score_test() override { return score_training(); }
    TaskScore score_training() override {
      net_->eval();
      std::vector<std::uint32_t> all(48);
      for (std::uint32_t i = 0; i < 48; ++i) all[i] = i;
      return {.loss = loss_over(all).item<double>()};
    }

   private:
    at::Tensor loss_over(const std::vector<std::uint32_t>& samples) {
      std::vector<at::Tensor> x;
      for (const std::uint32_t sample : samples) {
        x.push_back(torch::tensor({std::sin(0.1f * sample), std::cos(0.3f * sample), 0.01f * sample}));
      }
      const at::Tensor rows = torch::stack(x);
      return (net_->forward(rows) - rows.sum(1, true)).pow(2).mean();
    }

    Sequential net_;
    TorchReplica replica_;
  };
  const TaskFacts facts_;
};

TEST_F(DistributedOptimizerTest, TheTrainerTrainsTorchModelsWithRunningStatistics) {
  const NormalizedTask task;
  const double at_the_start = task.start_rank({.seed = 1, .lr = 0.02, .momentum = 0.9})->score_training().loss;
  for (const char* algorithm : {"sync", "eager-quorum", "local"}) {
    const auto summary = run_training({.algorithm = algorithm, .ranks = 3}, task, {.progress = [](const auto&) {}});
    EXPECT_EQ(summary->deposits.applied, 48u);
    EXPECT_TRUE(summary->replicas_identical) << algorithm;
    EXPECT_LT(*summary->loss, 0.5 * at_the_start) << algorithm;
  }
}

}  // namespace
}  // namespace stretto
