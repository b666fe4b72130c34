// A training loop of one's own with all that it needs: batches, clipping, schedulers, evaluation, checkpoints.

#include "stretto/train/testing/own_loop.h"

#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adam.h>
#include <torch/optim/schedulers/step_lr.h>

#include <csignal>
#include <filesystem>
#include <numeric>
#include <set>

#include "stretto/train/recipes/gradient_averaging.h"
#include "stretto/train/recipes/recipes.h"
#include "stretto/train/testing/captured.h"

namespace stretto {
namespace {

using testing::HasSubstr;
using torch::nn::Linear;
using torch::nn::Sequential;

TEST_F(OwnLoopTest, EveryBatchIsHandedOutOnce) {
  for (const char* data : {"", "shared", "partitioned"}) {
    for (const char* algorithm : {"sync", "eager-solo", "local"}) {
      const auto reports = run(3, [&](RankContext& rank) {
        Loop loop(rank, {.algorithm = algorithm});
        std::string drawn;
        for (const Batch& batch : loop.optimizer->batches(kSamples, kBatch, {.epochs = 2, .data = data, .seed = 3})) {
          for (const std::int64_t sample : batch.samples) EXPECT_LT(sample, static_cast<std::int64_t>(kSamples));
          loop.backward(batch);
          loop.optimizer->step(batch.samples.size());
          drawn += text(batch.sequence, " ");
        }
        loop.optimizer->finish();
        EXPECT_EQ(loop.optimizer->batches_applied(), 45u);
        return drawn;
      });
      std::multiset<int> all;
      for (const std::string& report : reports) {
        std::istringstream in(report);
        for (int batch; in >> batch;) all.insert(batch);
      }
      EXPECT_EQ(all.size(), 45u) << algorithm << data;
      EXPECT_EQ(std::set<int>(all.begin(), all.end()).size(), 45u) << algorithm << data;
    }
  }
}

TEST_F(OwnLoopTest, BatchesOfAPartHaveFewLabels) {
  const auto reports = run(3, [&](RankContext& rank) {
    Loop loop(rank, {.algorithm = "sync"});
    BatchesOptions options{.epochs = 2, .data = "labels:3", .seed = 3};
    for (std::uint32_t sample = 0; sample < kSamples; ++sample) options.labels.push_back(sample % 5);
    std::set<std::int64_t> labels;
    for (const Batch& batch : loop.optimizer->batches(kSamples, kBatch, options)) {
      for (const std::int64_t sample : batch.samples) labels.insert(sample % 5);
      loop.backward(batch);
      loop.optimizer->step(batch.samples.size());
    }
    loop.optimizer->finish();
    EXPECT_LE(labels.size(), 3u);
    std::string seen;
    for (const auto label : labels) seen += text(label);
    return seen;
  });
  std::set<char> of_all;
  for (const std::string& report : reports) of_all.insert(report.begin(), report.end());
  EXPECT_EQ(of_all.size(), 5u);
}

TEST_F(OwnLoopTest, ARangeThatWasLeftGoesOn) {
  run(2, [&](RankContext& rank) {
    Loop loop(rank, {.algorithm = "sync"});
    auto batches = loop.optimizer->batches(kSamples, kBatch);
    const auto step = [&](const Batch& batch) {
      loop.backward(batch);
      loop.optimizer->step();
    };
    for (const Batch& batch : batches) {
      step(batch);
      if (loop.optimizer->steps() == 3) break;
    }
    for (const Batch& batch : batches) step(batch);
    loop.optimizer->finish();
    EXPECT_EQ(loop.optimizer->batches_applied(), 23u);
    return std::string();
  });
}

TEST_F(OwnLoopTest, SeveralOptimizersHaveAPoolEach) {
  run(2, [&](RankContext& rank) {
    for (int trial = 0; trial < 12; ++trial) {
      Loop one(rank, {.algorithm = "sync"}), other(rank, {.algorithm = "sync"});
      auto batches_of_one = one.optimizer->batches(kSamples, kBatch, {.data = "partitioned"});
      auto batches_of_other = other.optimizer->batches(kSamples, kBatch, {.data = "partitioned"});
      auto second = batches_of_other.begin();
      std::uint64_t steps = 0;
      for (const Batch& batch : batches_of_one) {
        one.backward(batch);
        one.optimizer->step();
        if (second == batches_of_other.end()) continue;
        other.backward(*second);
        other.optimizer->step();
        ++second;
        ++steps;
      }
      EXPECT_EQ(second, batches_of_other.end());
      one.optimizer->finish();
      other.optimizer->finish();
      EXPECT_EQ(one.optimizer->batches_applied(), 23u);
      EXPECT_EQ(other.optimizer->batches_applied(), 23u);
    }
    return std::string();
  });
}

TEST_F(OwnLoopTest, ClipsTheAverageAsTorchDoes) {
  const auto reports = run(1, [&](RankContext& rank) {
    Sequential net = make_net(4), plain = make_net(4);
    const auto plain_optimizer = sgd(*plain);
    DistributedOptimizer optimizer(rank, net.ptr(), sgd(*net), {.algorithm = "sync", .clip_norm = 0.05});
    double longest = 0;
    optimizer.on_step([&] {
      double squares = 0;
      for (const at::Tensor& p : net->parameters()) squares += p.grad().pow(2).sum().item<double>();
      longest = std::max(longest, std::sqrt(squares));
    });
    for (int batch = 0; batch < 6; ++batch) {
      loss_of(net, batch).backward();
      optimizer.step();
      plain_optimizer->zero_grad();
      loss_of(plain, batch).backward();
      torch::nn::utils::clip_grad_norm_(plain->parameters(), 0.05);
      plain_optimizer->step();
    }
    optimizer.finish();
    EXPECT_NEAR(longest, 0.05, 1e-5);
    for (std::size_t i = 0; i < net->parameters().size(); ++i) {
      EXPECT_TRUE(at::allclose(net->parameters()[i], plain->parameters()[i], 1e-5, 1e-7)) << i;
    }
    return std::string();
  });
}

TEST_F(OwnLoopTest, ASchedulerFollowsTheBatchesApplied) {
  for (const char* algorithm : {"sync", "eager-quorum"}) {
    const auto reports = run(3, [&](RankContext& rank) {
      Sequential net = make_net(1);
      const auto wrapped = sgd(*net);
      DistributedOptimizer optimizer(rank, net.ptr(), wrapped, {.algorithm = algorithm});
      optimizer.follow(std::make_shared<torch::optim::StepLR>(*wrapped, 2, 0.5));
      for (int batch = 0; batch < 7 + rank.rank(); ++batch) {
        loss_of(net, batch).backward();
        optimizer.step();
      }
      optimizer.finish();
      return text(wrapped->param_groups()[0].options().get_lr());
    });
    // 24 batches are 8 steps of 3; LibTorch's scheduler halves in its steps 3, 5 and 7.
    for (const std::string& rate : reports) EXPECT_EQ(rate, "0.0125") << algorithm;
  }
}

TEST_F(OwnLoopTest, AccumulatedGradientsHaveTheSameBitsWithOverlap) {
  const auto train = [](bool overlap) {
    return run(2, [&](RankContext& rank) {
      Sequential net = make_net(1);
      DistributedOptimizer optimizer(rank, net.ptr(), sgd(*net),
                                     {.algorithm = "sync", .overlap = overlap, .bucket_bytes = 1});
      for (int batch = 0; batch < 9; ++batch) {
        for (int part = 0; part < 3; ++part) {
          optimizer.accumulate(part < 2);
          loss_of(net, 100 * rank.rank() + 3 * batch + part).backward();
        }
        optimizer.step();
      }
      optimizer.finish();
      return bits_of(*net);
    });
  };
  const auto overlapped = train(true);
  EXPECT_EQ(overlapped, train(false));
  EXPECT_EQ(overlapped[0], overlapped[1]);
}

TEST_F(OwnLoopTest, RanksAreAlikeAtAFullRound) {
  for (const char* algorithm : {"sync", "eager-solo"}) {
    const auto reports = run(3, [&](RankContext& rank) {
      Loop loop(rank, {.algorithm = algorithm, .full_every = 10});
      std::string seen;
      loop.optimizer->on_full_round([&] { seen += loop.bits(); });
      for (const Batch& batch : loop.optimizer->batches(kSamples, kBatch, {.epochs = 2})) {
        loop.backward(batch);
        loop.optimizer->step();
      }
      loop.optimizer->finish();
      EXPECT_GT(seen.size(), 300u);
      return seen;
    });
    EXPECT_EQ(reports[0], reports[1]) << algorithm;
    EXPECT_EQ(reports[0], reports[2]) << algorithm;
  }
}

/// What rank 0 writes to stderr in a loop with something wrong in it.
std::string told(const std::string& algorithm,
                 const std::function<void(Sequential&, torch::optim::Optimizer&)>& wrong) {
  testing::internal::CaptureStderr();
  const auto job = run_job({.ranks = 2, .tell = [](const std::string&) {}}, [&](RankContext& rank) {
    at::set_num_threads(1);
    Sequential net = make_net(1);
    const auto wrapped = sgd(*net);
    DistributedOptimizer optimizer(rank, net.ptr(), wrapped, {.algorithm = algorithm});
    for (int batch = 0; batch < 5; ++batch) {
      loss_of(net, batch).backward();
      wrong(net, *wrapped);
      optimizer.step();
    }
    optimizer.finish();
    return 0;
  });
  EXPECT_TRUE(job.ok());
  return captured_stderr();
}

TEST_F(OwnLoopTest, RanksAreTogetherInTheMiddleOfARun) {
  for (const char* algorithm : {"sync", "eager-solo", "eager-quorum:2", "local", "diloco", "wagma", "d-psgd"}) {
    const auto reports = run(3, [&](RankContext& rank) {
      Loop loop(rank, {.algorithm = algorithm});
      std::string seen;
      const auto step = [&](int steps) {
        for (int i = 0; i < steps; ++i) {
          loop.backward({.samples = {rank.rank() * 100 + i, i + 1}});
          if (i % 4 == 3) {
            loop.optimizer->pass();
          } else {
            loop.optimizer->step();
          }
        }
      };
      // Rank 2 has finished when the others meet for the second time.
      for (int meeting = 0; meeting < (rank.rank() == 2 ? 1 : 3); ++meeting) {
        step(5 + rank.rank());
        loop.optimizer->together([&] { seen += text(loop.optimizer->batches_applied(), " ") + bits_of(*loop.net); });
      }
      step(4);
      loop.optimizer->finish();
      EXPECT_EQ(loop.optimizer->ledger().lost_deposits(), 0) << algorithm;
      EXPECT_TRUE(loop.optimizer->replicas_identical()) << algorithm;
      // Of 5, 6 and 7 steps one is passed, of the last 4 too.
      EXPECT_EQ(loop.optimizer->batches_applied(), 3u * 4 + 3 * 5 + 6 + 3 * 3) << algorithm;
      return seen;
    });
    EXPECT_FALSE(reports[0].empty());
    EXPECT_EQ(reports[0], reports[1]) << algorithm;
  }
}

TEST_F(OwnLoopTest, AnExceptionInTheMiddleOfARunReachesAllRanks) {
  const auto reports = run(2, [&](RankContext& rank) -> std::string {
    Loop loop(rank, {.algorithm = "eager-solo"});
    try {
      loop.optimizer->together([&] {
        if (rank.rank() == 1) throw UsageError("no room for the checkpoint");
      });
      loop.optimizer->finish();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  });
  EXPECT_THAT(reports[0], HasSubstr("no room for the checkpoint"));
  EXPECT_THAT(reports[1], HasSubstr("no room for the checkpoint"));
}

TEST_F(OwnLoopTest, SaysOnceThatALocalGradientWasChanged) {
  const std::string said = told("sync", [](Sequential& net, torch::optim::Optimizer&) {
    torch::nn::utils::clip_grad_norm_(net->parameters(), 0.1);
  });
  EXPECT_THAT(said, HasSubstr("a gradient was changed between backward() and step()"));
  EXPECT_EQ(said.find("stretto:"), said.rfind("stretto:")) << said;
  EXPECT_EQ(told("sync", [](Sequential&, torch::optim::Optimizer&) {}), "");
}

TEST_F(OwnLoopTest, ExplainsASchedulerSteppedByTheLoop) {
  const auto slower = [](Sequential&, torch::optim::Optimizer& wrapped) {
    auto& options = wrapped.param_groups()[0].options();
    options.set_lr(options.get_lr() * 0.9);
  };
  EXPECT_THAT(told("eager-solo", slower), HasSubstr("hand the scheduler to follow()"));
  EXPECT_EQ(told("sync", slower), "") << "as many steps on every rank";
}

/// An algorithm that the library does not know.
class Own final : public GradientAveraging {
 public:
  explicit Own(const RecipeContext& context) : GradientAveraging(context, context.options.policy, Delivery::every) {}
};

constexpr RecipeInfo kOwn{
    "own-quorum",
    ":Q",
    "for a test",
    "shared",
    [](const std::string& argument, int ranks, int) { return Policy::parse("quorum:" + argument, ranks); },
    [](const RecipeContext& context) -> std::unique_ptr<Recipe> { return std::make_unique<Own>(context); }};

TEST_F(OwnLoopTest, AnAlgorithmOfOnesOwnIsNamed) {
  register_recipe(kOwn);
  const auto train_by = [](const std::string& algorithm) {
    return outcome(3, [&](RankContext& rank) {
      Sequential net = make_net(1);
      DistributedOptimizer optimizer(rank, net.ptr(), sgd(*net), {.algorithm = algorithm});
      for (int batch = 0; batch < 6; ++batch) {
        loss_of(net, batch).backward();
        optimizer.step();
      }
      optimizer.finish();
      return text(optimizer.batches_applied(), optimizer.replicas_identical());
    });
  };
  EXPECT_THAT(train_by("own-quorum:2"), testing::Each("181"));
  EXPECT_THAT(train_by("own-qorum:2")[0], HasSubstr("did you mean own-quorum?"));
}

TEST_F(OwnLoopTest, RefusesWhatDoesNotFit) {
  const auto complaint = [&](const DistributedOptions& options, const std::function<void(Loop&)>& wrong) {
    const auto all = outcome(2, [&](RankContext& rank) {
      Loop loop(rank, options);
      wrong(loop);
      loop.optimizer->finish();
      return std::string("accepted");
    });
    // Both do it. The slower one may hear that the other has ended before it comes to it.
    return all[0].find("rank 1 stopped the job") == std::string::npos ? all[0] : all[1];
  };
  const DistributedOptions sync{.algorithm = "sync", .full_every = 4};
  const auto nothing = [](Loop&) {};
  EXPECT_EQ(complaint(sync, nothing), "accepted");
  EXPECT_THAT(complaint({.clip_norm = -1}, nothing), HasSubstr("clip-norm -1: expected the largest 2-norm"));
  EXPECT_THAT(complaint(sync, [](Loop& l) { l.optimizer->batches(1, kBatch); }), HasSubstr("fewer"));
  EXPECT_THAT(complaint(sync, [](Loop& l) { l.optimizer->batches(0, kBatch); }), HasSubstr("samples"));
  EXPECT_THAT(complaint(sync, [](Loop& l) { l.optimizer->batches(9, 0); }), HasSubstr("batch"));
  EXPECT_THAT(complaint(sync, [](Loop& l) { l.optimizer->batches(9, 1, {.data = "mine"}); }), HasSubstr("data 'mine'"));
  EXPECT_THAT(complaint(sync, [](Loop& l) { l.optimizer->batches(2, 1, {.bucketed = true}); }),
              HasSubstr("bucketed without lengths"));
  EXPECT_THAT(complaint(sync,
                        [](Loop& l) {
                          l.optimizer->batches(2, 1, {.lengths = {1, 2}});
                        }),
              HasSubstr("lengths without bucketed: they have no effect"));
  EXPECT_THAT(complaint(sync,
                        [](Loop& l) {
                          l.optimizer->batches(9, 1);
                          l.optimizer->batches(9, 1);
                        }),
              HasSubstr("batches() a second time"));
  EXPECT_THAT(complaint(sync, [](Loop& l) { l.optimizer->follow(nullptr); }), HasSubstr("the scheduler is null"));
  EXPECT_THAT(complaint({.algorithm = "sync"}, [](Loop& l) { l.optimizer->on_full_round([] {}); }),
              HasSubstr("without DistributedOptions::full_every"));
  EXPECT_THAT(complaint(sync,
                        [&](Loop& l) {
                          l.backward({.samples = {1, 2, 3}});
                          l.optimizer->step();
                          l.optimizer->save(folder_);
                        }),
              HasSubstr("save(): gradients are pending"));
}

}  // namespace
}  // namespace stretto
