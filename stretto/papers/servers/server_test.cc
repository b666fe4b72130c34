// Layer by layer: what a forward pass waits for. Two ranks on a virtual clock in one thread; the server of the bucket
// that is read last is not stepped until the forward pass waits for it.

#include "stretto/papers/servers/server.h"

#include <gtest/gtest.h>

#include "stretto/simulate/cluster.h"
#include "stretto/train/replica/flat_math.h"
#include "stretto/train/testing/deaf.h"
#include "stretto/train/testing/test_task.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

/// A rank with a linear model of two buckets, under ps-async with a server for each.
struct Rank {
  Rank(SimulatedCluster& cluster, int rank)
      : engine(cluster.transport(rank), cluster.clock()),
        task_rank(task->start_rank({})),
        meeting(engine, task_rank->replica()),
        recipe(make_ps_async({task_rank->replica(), engine, meeting, deaf, options()})) {}

  static RecipeOptions options() {
    RecipeOptions options{.local_steps = 0};
    options.algorithm.set("layerwise", "yes");
    return options;
  }
  std::vector<std::byte> weights(int bucket) const {
    const auto memory = task_rank->replica().parameters(bucket);
    return {memory.begin(), memory.end()};
  }

  Engine engine;
  std::unique_ptr<TrainingTask> task = linear_task();
  std::unique_ptr<RankTask> task_rank;
  Deaf deaf;
  Meeting meeting;
  std::unique_ptr<Recipe> recipe;
};

/// Rank 0's application: rank 1 gets its turns when nothing else is left to happen.
class HeldDriver final : public Driver {
 public:
  HeldDriver(SimulatedCluster& cluster, Engine& mine, Engine& held) : cluster_(cluster), mine_(mine), held_(held) {
    cluster.on_wake(0, [this] { step(mine_); });
    cluster.on_wake(1, [this] {
      if (!holds_) step(held_);
    });
  }
  const Clock& clock() const override { return cluster_.clock(); }
  void notify() override {}
  /// Rank 1 is stepped only in a wait that nothing else ends.
  void hold() { holds_ = true; }
  bool holds() const { return holds_; }

 private:
  static void step(Engine& engine) {
    while (engine.step()) {
    }
  }
  bool drive(FunctionRef<bool()> done, TimePoint, Looking, std::atomic<std::uint32_t>*) override {
    for (;;) {
      step(mine_);
      if (done()) return true;
      if (cluster_.run_next()) continue;
      if (!holds_) return false;
      holds_ = false;
      step(held_);
    }
  }

  SimulatedCluster& cluster_;
  Engine& mine_;
  Engine& held_;
  bool holds_ = false;
};

class LayerwisePull : public testing::Test {
 protected:
  LayerwisePull() : driver_(cluster_, rank_.engine, server_.engine) {
    EXPECT_FALSE(server_.recipe->drain(driver_).or_throw()) << "rank 1 serves, and has no batches";
  }
  /// With a forward pass that calls `read` before it reads a bucket.
  void step(const std::function<void(int)>& read) {
    constexpr std::uint32_t kSamples[] = {0, 1, 2, 3};
    rank_.task_rank->replica().reads_by_bucket()->on_bucket_read(read);
    const DepositInfo info{.samples = 4, .computed = 1ms};
    rank_.recipe->begin_step(info);
    rank_.task_rank->forward_backward(kSamples, 0);
    ASSERT_EQ(rank_.recipe->end_backward(), std::nullopt);
    rank_.recipe->deposit(info);
  }
  void bring(int bucket) {
    ASSERT_TRUE(rank_.recipe->weights_by_bucket()->bring(bucket, driver_, TimePoint::never()).ok());
  }

  SimulatedCluster cluster_{2, {}, 1};
  Rank rank_{cluster_, 0}, server_{cluster_, 1};
  HeldDriver driver_;
};

TEST_F(LayerwisePull, AForwardPassBeginsWhenItsFirstLayerIsThere) {
  ASSERT_TRUE(rank_.recipe->weights_by_bucket()->bring_by_bucket());
  step([this](int bucket) { bring(bucket); });
  const auto first = rank_.weights(0), second = rank_.weights(1);
  driver_.hold();
  ASSERT_TRUE(rank_.recipe->advance(driver_, TimePoint::never()).ok());
  EXPECT_TRUE(driver_.holds()) << "exchange() does not wait";
  std::vector<int> order;
  step([&](int bucket) {
    EXPECT_EQ(rank_.weights(bucket), bucket == 0 ? first : second) << "not before they are asked for";
    bring(bucket);
    order.push_back(bucket);
    EXPECT_NE(rank_.weights(bucket), bucket == 0 ? first : second) << "of the step before, bucket " << bucket;
    EXPECT_EQ(driver_.holds(), bucket == 0) << "the server of bucket 1 has answered nothing while bucket 0 is read";
  });
  EXPECT_EQ(order, (std::vector<int>{0, 1}));
}

TEST_F(LayerwisePull, WithoutItExchangeBringsAllLayers) {
  step([](int) {});
  const auto first = rank_.weights(0), second = rank_.weights(1);
  driver_.hold();
  ASSERT_TRUE(rank_.recipe->advance(driver_, TimePoint::never()).ok());
  EXPECT_FALSE(driver_.holds());
  EXPECT_NE(rank_.weights(0), first);
  EXPECT_NE(rank_.weights(1), second);
}

TEST_F(LayerwisePull, ALayerThatIsNotAskedForIsAMistake) {
  const CheckFailuresThrow checks_throw;
  ASSERT_TRUE(rank_.recipe->weights_by_bucket()->bring_by_bucket());
  step([](int) {});
  EXPECT_THROW(step([](int) {}), CheckFailure);
}

}  // namespace
}  // namespace stretto
