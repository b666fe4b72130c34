#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/random.h"
#include "stretto/membership/rank_over_transport.h"
#include "stretto/simulate/virtual_ranks.h"
#include "stretto/train/recipes/diloco.h"
#include "stretto/train/recipes/recipes.h"
#include "stretto/train/testing/bytes.h"
#include "stretto/train/testing/two_numbers.h"

namespace stretto {
namespace {

using testing::HasSubstr;

template <class T>
class OuterOptimizerOf : public testing::Test {
 public:
  static constexpr DataType kType = sizeof(T) == 4 ? DataType::float32 : DataType::float64;
};
TYPED_TEST_SUITE(OuterOptimizerOf, Floats);

TYPED_TEST(OuterOptimizerOf, IsNesterovsMomentumNumberByNumber) {
  using T = TypeParam;
  constexpr std::size_t kCount = 37;
  OuterOptimizer optimizer({{this->kType, kCount}}, {.lr = 0.7, .momentum = 0.9});
  Random random(3);
  std::vector<T> model(kCount);
  for (T& x : model) x = static_cast<T>(random.normal());
  std::vector<double> reference(model.begin(), model.end()), velocity(kCount);
  for (int round = 0; round < 20; ++round) {
    std::vector<T> sum(kCount);
    for (T& x : sum) x = static_cast<T>(random.normal());
    optimizer.step(0, bytes(model), bytes(sum), 3);
    for (std::size_t i = 0; i < kCount; ++i) {
      const double g = static_cast<double>(sum[i]) / 3;
      velocity[i] = 0.9 * velocity[i] + g;
      reference[i] -= 0.7 * (g + 0.9 * velocity[i]);
    }
  }
  for (std::size_t i = 0; i < kCount; ++i) EXPECT_NEAR(model[i], reference[i], sizeof(T) == 4 ? 1e-4 : 1e-12);
}

TYPED_TEST(OuterOptimizerOf, RoundsNothingWhereNothingNeedsToBeRounded) {
  using T = TypeParam;
  OuterOptimizer optimizer({{this->kType, 2}}, {.lr = 0.5, .momentum = 0.5});
  std::vector<T> model{8, -4}, sum{16, 4};
  optimizer.step(0, bytes(model), bytes(sum), 4);  // g = 4, 1; v = 4, 1
  EXPECT_THAT(model, testing::ElementsAre(T{8} - T{0.5} * 6, T{-4} - T{0.5} * T{1.5}));
  optimizer.step(0, bytes(model), bytes(sum), 4);  // v = 6, 1.5
  EXPECT_THAT(model, testing::ElementsAre(T{5} - T{0.5} * 7, T{-4.75} - T{0.5} * T{1.75}));
}

TYPED_TEST(OuterOptimizerOf, WithRateOneAndWithoutMomentumIsPlainAveraging) {
  using T = TypeParam;
  OuterOptimizer optimizer({{this->kType, 1}}, {.lr = 1, .momentum = 0});
  std::vector<T> model{10}, sum{3};  // two ranks went from 10 to 9 and to 8
  optimizer.step(0, bytes(model), bytes(sum), 2);
  EXPECT_EQ(model[0], T{8.5});
}

TEST(OuterOptimizer, GoesOnFromItsState) {
  const std::vector<BucketSpec> buckets{{DataType::float32, 3}, {DataType::float64, 2}};
  OuterOptimizer a(buckets, {}), b(buckets, {});
  std::vector<float> of_a{1, 2, 3}, of_b, first{0.1f, 0.2f, 0.3f};
  std::vector<double> of_a2{1, 2}, of_b2, second{0.1, 0.2};
  a.step(0, bytes(of_a), bytes(first), 3);
  a.step(1, bytes(of_a2), bytes(second), 3);
  EXPECT_EQ(a.state().size(), a.bytes());
  EXPECT_EQ(a.bytes(), 28u);
  b.set_state(a.state());
  of_b = of_a;
  of_b2 = of_a2;
  for (OuterOptimizer* one : {&a, &b}) {
    one->step(0, bytes(one == &a ? of_a : of_b), bytes(first), 3);
    one->step(1, bytes(one == &a ? of_a2 : of_b2), bytes(second), 3);
  }
  EXPECT_EQ(of_a, of_b);
  EXPECT_EQ(of_a2, of_b2);
  EXPECT_THROW(b.set_state("too short"), Failure);
}

std::string complaint(OuterOptimizerOptions options) {
  try {
    const OuterOptimizer optimizer({}, options);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(OuterOptimizer, RefusesWhatIsNoOuterStep) {
  EXPECT_THAT(complaint({.momentum = 1}), HasSubstr("outer-momentum 1: expected a number from 0 to below 1"));
  EXPECT_THAT(complaint({.momentum = -0.1}), HasSubstr("outer-momentum -0.1: expected"));
  EXPECT_THAT(complaint({.momentum = std::numeric_limits<double>::quiet_NaN()}), HasSubstr("outer-momentum nan"));
  EXPECT_THAT(complaint({.lr = 0}), HasSubstr("outer-lr 0: expected a number above 0"));
  EXPECT_THAT(complaint({.lr = 1e60}), HasSubstr("outer-lr 1e+60"));
  EXPECT_EQ(complaint({.lr = 1, .momentum = 0}), "");
}

/// Counts the batches that rounds have brought.
struct Batches final : RoundListener {
  void before(const RoundResult&) override {}
  void after(const RoundResult& result) override { number += result.header->batches; }
  std::uint64_t number = 0;
};

/// A rank alone under DiLoCo, where members of its job may change, with phases of two steps.
struct DilocoRank {
  explicit DilocoRank(RankOverTransport& rank)
      : engine(rank.world().engine()), driver(rank.world().driver()), meeting(engine, replica) {
    const RecipeOptions options{.policy = Policy::full(), .local_steps = 2, .members_change = true};
    recipe = find_recipe("diloco")->make({replica, engine, meeting, batches, options});
  }

  Result<int> step() {
    recipe->begin_step(one_step);
    replica.backward(0, 1);
    replica.backward(1, -3);
    EXPECT_EQ(recipe->end_backward(), std::nullopt);
    recipe->deposit(one_step);
    return recipe->advance(driver, driver.deadline(std::chrono::seconds(10)));
  }
  void steps(int number) {
    for (int i = 0; i < number; ++i) EXPECT_TRUE(step().ok());
  }
  void takes_weights_of(DilocoRank& other) {
    for (const std::size_t i : {0, 1}) replica.number(i) = other.replica.number(i);
  }
  CarriedSums& sums() { return *recipe->carried_sums(); }

  Engine& engine;
  Driver& driver;
  TwoNumbers replica{0};
  Batches batches;
  Meeting meeting;
  const DepositInfo one_step;
  std::unique_ptr<Recipe> recipe;
};

void alone(const std::function<void(RankOverTransport& rank)>& run) {
  SimulatedCluster cluster(1, {}, 1);
  VirtualRanks(cluster).run([&](VirtualRank& place) {
    RankOverTransport rank(place.transport(), place.clock(), &place);
    place.drive_engine(&rank.world().engine());
    run(rank);
    place.drive_engine(nullptr);
  });
}

TEST(DilocoInAnotherWorld, GoesOnInTheMiddleOfAPhase) {
  alone([](RankOverTransport& rank) {
    DilocoRank whole(rank), before(rank), after(rank);
    whole.steps(6);
    before.steps(3);
    after.takes_weights_of(before);  // a rank has one replica, which stays
    after.sums().go_on_from(before.sums());
    after.steps(3);
    EXPECT_EQ(after.replica.numbers(), whole.replica.numbers());
    EXPECT_EQ(before.batches.number + after.batches.number, 6u);
  });
}

TEST(DilocoInAnotherWorld, ARankThatComesInBeginsWithTheOuterModel) {
  alone([](RankOverTransport& rank) {
    DilocoRank whole(rank), holder(rank), learner(rank);
    EXPECT_EQ(holder.sums().model_beside(), "");  // its weights are
    whole.steps(2);
    holder.steps(3);
    EXPECT_NE(holder.replica.numbers(), whole.replica.numbers());
    learner.takes_weights_of(holder);  // as a session broadcasts them
    learner.sums().take_over(holder.sums().model_beside());
    EXPECT_EQ(learner.replica.numbers(), whole.replica.numbers());
    whole.steps(2);
    learner.steps(2);
    EXPECT_EQ(learner.replica.numbers(), whole.replica.numbers());
    EXPECT_THROW(learner.sums().take_over("too short"), Failure);
  });
}

TEST(DilocoInAnotherWorld, AChangeIsNoticedInTheMiddleOfAPhase) {
  alone([](RankOverTransport& rank) {
    DilocoRank one(rank);
    one.steps(2);
    one.engine.freeze();
    const Result<int> rounds = one.step();
    ASSERT_FALSE(rounds.ok());
    EXPECT_EQ(rounds.error().code, Errc::members_changed);
  });
}

}  // namespace
}  // namespace stretto
