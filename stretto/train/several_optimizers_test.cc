// Several optimizers in one job: at once, and one after the other.

#include <gmock/gmock.h>
#include <unistd.h>

#include "stretto/train/testing/torch_ranks.h"

namespace stretto {
namespace {

using testing::HasSubstr;
using torch::nn::Sequential;

const std::vector<DistributedOptions>& settings() {
  static const std::vector<DistributedOptions> all{{.algorithm = "eager-quorum"},
                                                   {.algorithm = "eager-solo"},
                                                   {.algorithm = "eager-majority"},
                                                   {.algorithm = "sync"},
                                                   {.algorithm = "sync", .overlap = true, .bucket_bytes = 1},
                                                   {.algorithm = "local", .sync_every = 3}};
  return all;
}

std::string name_of(const DistributedOptions& options) {
  return options.algorithm + (options.overlap ? " with overlap" : "");
}

using SeveralOptimizersTest = TorchRanksTest;

TEST_F(SeveralOptimizersTest, TwoTrainAtOnceAsEachAlone) {
  for (const DistributedOptions& options : settings()) {
    const auto train = [&](bool both) {
      return run(3, [&](RankContext& rank) {
        Sequential a = make_net(1), b = make_net(2);
        DistributedOptimizer of_a(rank, a.ptr(), sgd(*a), options);
        std::optional<DistributedOptimizer> of_b;
        if (both) of_b.emplace(rank, b.ptr(), sgd(*b), options);
        for (int batch = 0; batch < 7; ++batch) {
          if (both && batch % 2 == 0) {  // another rhythm
            loss_of(b, 500 + batch).backward();
            of_b->step();
          }
          loss_of(a, batch + 100 * rank.rank()).backward();
          of_a.step();
        }
        if (both) {
          of_b->finish();
          EXPECT_TRUE(of_b->replicas_identical());
          EXPECT_EQ(of_b->batches_applied(), 12u);
        }
        of_a.finish();
        EXPECT_TRUE(of_a.replicas_identical());
        EXPECT_EQ(of_a.batches_applied(), 21u);
        return bits_of(*a);
      });
    };
    const auto both = train(true);
    EXPECT_EQ(both[0], both[1]) << name_of(options);
    EXPECT_EQ(both[0], both[2]) << name_of(options);
    // What all ranks take part in repeats to the bit.
    if (!options.algorithm.starts_with("eager")) {
      EXPECT_EQ(both, train(false)) << name_of(options);
    }
  }
}

/// Of two models, on a rank whose number of batches is its own; the last rank has most, and is slow. Returns their
/// bits.
std::string train_unequally(RankContext& rank, const DistributedOptions& options, bool by_destructor) {
  Sequential a = make_net(1), b = make_net(2);
  {
    DistributedOptimizer of_a(rank, a.ptr(), sgd(*a), options);
    DistributedOptimizer of_b(rank, b.ptr(), sgd(*b), options);
    const bool last = rank.rank() == rank.size() - 1;
    for (int batch = 0; batch < (last ? 15 : 3); ++batch) {
      if (last) ::usleep(2000);  // or it would not be behind the others
      loss_of(a, batch + 100 * rank.rank()).backward();
      of_a.step();
      loss_of(b, batch + 100 * rank.rank()).backward();
      of_b.step();
    }
    if (!by_destructor) {
      of_b.finish();
      of_a.finish();
      EXPECT_EQ(of_a.batches_applied(), 21u);
      EXPECT_EQ(of_b.batches_applied(), 21u);
      EXPECT_EQ(of_a.ledger().lost_deposits() + of_b.ledger().lost_deposits(), 0);
    }
  }
  return bits_of(*a) + bits_of(*b);
}

TEST_F(SeveralOptimizersTest, RanksWithoutBatchesDoNotStopTheOthers) {
  for (const DistributedOptions& options : settings()) {
    for (const bool by_destructor : {false, true}) {
      const auto ends = run(3, [&](RankContext& rank) { return train_unequally(rank, options, by_destructor); });
      EXPECT_EQ(ends[0], ends[1]) << name_of(options);
      EXPECT_EQ(ends[0], ends[2]) << name_of(options);
      EXPECT_EQ(ends[0].size(), 2 * 26 * sizeof(float)) << name_of(options) << ": " << ends[0];
    }
  }
}

TEST_F(SeveralOptimizersTest, OneEndsWhileTheOtherGoesOn) {
  const auto train = [&](Others others, const std::string& algorithm) {
    return outcome(3, [&](RankContext& rank) {
      Sequential a = make_net(1);
      DistributedOptimizer of_a(rank, a.ptr(), sgd(*a), {.algorithm = algorithm});
      for (int epoch = 0; epoch < 4; ++epoch) {
        Sequential b = make_net(2);
        DistributedOptimizer of_b(rank, b.ptr(), sgd(*b), {.algorithm = "sync"});
        for (int batch = 0; batch < 3; ++batch) {
          loss_of(b, batch + 100 * rank.rank()).backward();
          of_b.step();
        }
        of_b.finish(others);
        loss_of(a, epoch + 100 * rank.rank()).backward();
        of_a.step();
      }
      of_a.finish();
      EXPECT_EQ(of_a.batches_applied(), 12u);
      return bits_of(*a);
    });
  };
  const auto ends = train(Others::go_on, "sync");
  EXPECT_EQ(ends[0], ends[1]);
  EXPECT_EQ(ends[0].size(), 26 * sizeof(float)) << ends[0];
  EXPECT_EQ(ends, train(Others::go_on, "sync")) << "the same bits in every run";
  EXPECT_THAT(train(Others::end, "sync")[0], HasSubstr("step() after finish() of another optimizer"));
  EXPECT_THAT(train(Others::go_on, "eager-solo")[0], HasSubstr("beside an optimizer with algorithm 'eager-solo'"));
}

TEST_F(SeveralOptimizersTest, TwoHundredOneAfterTheOtherWithASlowRank0) {
  const auto reports = run(3, [&](RankContext& rank) {
    std::string all;
    for (int trial = 0; trial < 200; ++trial) {
      const DistributedOptions& options = settings()[static_cast<std::size_t>(trial) % settings().size()];
      Sequential net = make_net(static_cast<std::uint64_t>(trial));
      DistributedOptimizer optimizer(rank, net.ptr(), sgd(*net), options);
      for (int batch = 0; batch < 3; ++batch) {
        if (rank.rank() == 0 && trial % 20 < 6) ::usleep(3000);  // slow, so that the others are ahead
        loss_of(net, batch).backward();
        optimizer.step();
      }
      if (trial % 3 != 0) {
        optimizer.finish();
        EXPECT_TRUE(optimizer.replicas_identical()) << "trial " << trial << ", " << name_of(options);
        EXPECT_EQ(optimizer.batches_applied(), 9u) << "trial " << trial << ", " << name_of(options);
      }
      all += bits_of(*net);
    }
    return all;
  });
  EXPECT_EQ(reports[0], reports[1]);
  EXPECT_EQ(reports[0], reports[2]);
  EXPECT_EQ(reports[0].size(), 200 * 26 * sizeof(float)) << reports[0].substr(0, 300);
}

TEST_F(SeveralOptimizersTest, AFailedOneLeavesTheJobToTheNext) {
  for (const DistributedOptions& options : settings()) {
    const auto reports = run(3, [&](RankContext& rank) {
      std::string said;
      for (const bool poisoned : {true, false}) {
        Sequential net = make_net(3);
        try {
          DistributedOptimizer optimizer(rank, net.ptr(), sgd(*net), options);
          for (int batch = 0; batch < 8; ++batch) {
            const float factor =
                poisoned && rank.rank() == 1 && batch == 2 ? std::numeric_limits<float>::infinity() : 1;
            (loss_of(net, batch) * factor).backward();
            optimizer.step();
          }
          optimizer.finish();
          said += optimizer.replicas_identical() ? "identical" : "different";
        } catch (const Failure& failure) {
          said += failure.error().code == Errc::aborted ? "stopped, then " : failure.error().message;
        }
      }
      return said;
    });
    for (const std::string& said : reports) EXPECT_EQ(said, "stopped, then identical") << name_of(options);
  }
}

}  // namespace
}  // namespace stretto
