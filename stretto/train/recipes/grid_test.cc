// The recipe of the elastic grid, in virtual time, with numbers that no operation rounds.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/membership/rank_over_transport.h"
#include "stretto/simulate/virtual_ranks.h"
#include "stretto/train/job/run.h"
#include "stretto/train/job/session.h"
#include "stretto/train/recipes/grid_model.h"
#include "stretto/train/recipes/recipes.h"
#include "stretto/train/testing/deaf.h"
#include "stretto/train/testing/test_task.h"
#include "stretto/train/testing/two_numbers.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::size_t kSteps = 5;
constexpr float kMomentum = 0.5;

float gradient(int node, std::size_t step, std::size_t number) {
  return static_cast<float>((node * 5 + static_cast<int>(step) * 3 + static_cast<int>(number)) % 8 - 3);
}

struct Node {
  std::array<double, 2> weights{}, velocities{};
};

/// All nodes after each step, and at the end.
using History = std::vector<std::vector<Node>>;

/// One line of all nodes, which take their steps at the same times: a round is over before the next step is.
History trained(int nodes, const AlgorithmOptions& said) {
  History history(kSteps + 1, std::vector<Node>(static_cast<std::size_t>(nodes)));
  int finished = 0;
  SimulatedCluster cluster(nodes, {}, 1);
  VirtualRanks(cluster).run([&](VirtualRank& place) {
    RankOverTransport rank(place.transport(), place.clock(), &place);
    place.drive_engine(&rank.world().engine());
    TwoNumbers replica(kMomentum);
    Deaf deaf;
    RecipeOptions options{.policy = Policy::full(), .local_steps = kMeetsAtTheEnd};
    options.algorithm = said;
    options.algorithm.set("dimensions", "1");
    Session session(rank, replica, deaf, {.recipe = find_recipe("easgd-grid"), .recipe_options = options});
    session.begin({});
    const auto note = [&](std::size_t when) {
      Node& node = history[when][static_cast<std::size_t>(place.rank())];
      for (std::size_t i = 0; i < 2; ++i) {
        node.weights[i] = static_cast<double>(replica.numbers()[i]);
        node.velocities[i] = static_cast<double>(replica.velocities()[i]);
      }
    };
    for (std::size_t step = 0; step < kSteps; ++step) {
      place.compute(10ms);
      session.begin_step(1, Duration(0));
      for (const int number : {0, 1})
        replica.backward(number, gradient(place.rank(), step, static_cast<std::size_t>(number)));
      session.end_backward("here");
      session.deposit(Duration(0));
      session.take();
      note(step);
    }
    session.finish();
    note(kSteps);
    // What others still send this rank is taken.
    ++finished;
    rank.world().driver().wait([&] { return finished == nodes; }, TimePoint::never());
    place.drive_engine(nullptr);
  });
  return history;
}

/// The same in plain loops: a step, and then the mean of what all had after the step before.
enum class Momentum { local, averaged, swapped };
History reference(int count, bool paper, double alpha, Momentum momentum) {
  History history;
  std::vector<Node> nodes(static_cast<std::size_t>(count)), shown = nodes;
  for (std::size_t step = 0; step < kSteps; ++step) {
    for (int n = 0; n < count; ++n) {
      Node& node = nodes[static_cast<std::size_t>(n)];
      for (std::size_t i = 0; i < 2; ++i) {
        node.velocities[i] = kMomentum * node.velocities[i] + static_cast<double>(gradient(n, step, i));
        node.weights[i] -= node.velocities[i];
        if (step < 2) continue;  // the first round of a line began before there was a model
        const auto move = [&](std::array<double, 2> Node::*numbers, double alpha) {
          double mean = 0;
          for (const Node& other : shown) mean += (other.*numbers)[i] / count;
          double& mine = (node.*numbers)[i];
          const double from = paper ? mine : (shown[static_cast<std::size_t>(n)].*numbers)[i];
          mine += alpha * (mean - from);
        };
        move(&Node::weights, alpha);
        // Of slices of one number there is one direction: two nodes swap what they have.
        if (momentum != Momentum::local) move(&Node::velocities, momentum == Momentum::swapped ? 2 : alpha);
      }
    }
    shown = nodes;
    history.push_back(nodes);
  }
  return history;
}

void expect_equal(const History& here, const History& there) {
  for (std::size_t step = 0; step < kSteps; ++step) {
    for (std::size_t node = 0; node < here[step].size(); ++node) {
      EXPECT_EQ(here[step][node].weights, there[step][node].weights) << "step " << step << ", node " << node;
      EXPECT_EQ(here[step][node].velocities, there[step][node].velocities) << "step " << step << ", node " << node;
    }
  }
}

TEST(ElasticGrid, MovesByTheMeansOfTheStepBefore) {
  expect_equal(trained(2, {}), reference(2, false, 0.5, Momentum::local));
  expect_equal(trained(2, {{"alpha", "0.25"}}), reference(2, false, 0.25, Momentum::local));
  expect_equal(trained(2, {{"elastic-rule", "paper"}}), reference(2, true, 0.5, Momentum::local));
}

TEST(ElasticGrid, MomentumTravelsAndMovesWithTheModelWhereItIsAskedFor) {
  for (const int nodes : {2, 4}) {
    expect_equal(trained(nodes, {{"average-momentum", "yes"}}), reference(nodes, false, 0.5, Momentum::averaged));
    expect_equal(trained(nodes, {{"average-momentum", "yes"}, {"elastic-rule", "paper"}}),
                 reference(nodes, true, 0.5, Momentum::averaged));
  }
}

TEST(ElasticGrid, MomentumIsExchangedWhereItIsAskedFor) {
  expect_equal(trained(2, {{"momentum-exchange", "yes"}}), reference(2, false, 0.5, Momentum::swapped));
}

TEST(ElasticGrid, NothingMovesBehindTheLastRoundOfAll) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    TrainOptions options{.algorithm = "easgd-grid", .ranks = 16, .steps = 10, .pace = 10ms};
    options.seed = seed;
    if (seed > 20) options.sync_every = 5;  // some have no step of their own behind the last average
    options.simulated = true;
    options.network = "latency=600us,bandwidth=10GB/s,jitter=400us";
    options.imbalance = "random:ranks=1,delay=5ms+lognormal:mean=300us,cv=1";
    const RunSummary run = run_training(options, *linear_task(), {.progress = [](const RunProgress&) {}}).value();
    EXPECT_TRUE(run.replicas_identical) << "seed " << seed;
    ASSERT_EQ(run.lines.size(), 2u);
    for (const auto& dimension : run.lines) {
      ASSERT_EQ(dimension.size(), 16u);
      for (const GridCounts& rank : dimension) EXPECT_GT(rank.applied, 0u) << "seed " << seed;
    }
  }
}

/// To ask who is missing takes a message to each rank, and an answer.
TEST(ElasticGrid, WaitsForTheLastWithoutAsking) {
  TrainOptions options{.algorithm = "easgd-grid", .ranks = 4, .steps = 4, .pace = 10ms};
  options.simulated = true;
  options.imbalance = "persistent:rank=3,delay=2s";
  const RunSummary run = run_training(options, *linear_task(), {.progress = [](const RunProgress&) {}}).value();
  EXPECT_GT(run.wall_seconds, 2);
  EXPECT_LT(run.messages_per_step, 200)
      << "rounds of two lines of two, every 20 ms, and that of all; with questions 632";
}

TEST(ElasticGrid, ARankThatWaitsForAllBringsItsLinesNothingNew) {
  constexpr std::uint64_t kOwn = 10;
  for (const std::uint64_t sync_every : {std::uint64_t{0}, std::uint64_t{5}}) {
    TrainOptions options{.algorithm = "easgd-grid", .ranks = 4, .steps = kOwn, .pace = 100ms};
    options.sync_every = sync_every;
    options.simulated = true;
    options.data = "partitioned";
    options.imbalance = "persistent:rank=3,factor=4";
    const RunSummary run = run_training(options, *linear_task(), {.progress = [](const RunProgress&) {}}).value();
    ASSERT_EQ(run.lines.size(), 2u);
    for (const auto& dimension : run.lines) {
      for (const GridCounts& rank : dimension) {
        EXPECT_GT(rank.contributed, 0u);
        EXPECT_LE(rank.contributed, kOwn) << "a model after each of its own steps, at most";
      }
    }
  }
}

/// Else a rank that waits for others would be woken at the same virtual time for ever.
TEST(ElasticGrid, NothingIsDueInLinesThatHaveStopped) {
  SimulatedCluster cluster(2, {}, 1);
  VirtualRanks(cluster).run([&](VirtualRank& place) {
    RankOverTransport rank(place.transport(), place.clock(), &place);
    place.drive_engine(&rank.world().engine());
    GridAllreduce grid(rank.world().engine(), {{DataType::float64, 2}}, {.grid = {.dimensions = 1}, .line = {}});
    EXPECT_TRUE(grid.stop(place, TimePoint::never()));
    EXPECT_FALSE(place.wait([] { return false; }, place.deadline(1min)));
    place.drive_engine(nullptr);
  });
}

TEST(ElasticGrid, SaysForWhomALineStandsStill) {
  TrainOptions options{.algorithm = "easgd-grid", .ranks = 4, .steps = 300, .pace = 100ms};
  options.simulated = true;
  options.data = "shared";
  options.imbalance = "persistent:rank=3,delay=25s";
  std::vector<std::string> said;
  const auto hear = [&said](const RunProgress& progress) {
    if (!progress.notice.empty()) said.push_back(progress.notice);
  };
  (void)run_training(options, *linear_task(), {.progress = hear}).value();
  EXPECT_THAT(said, testing::Contains(testing::ContainsRegex(
                        "the line of rank [0-3], rank [0-3] in the grid has had no round for 10 s: it waits for rank "
                        "3; training goes on")));
}

/// What making the recipe over a replica says, where ranks meet at the end alone.
std::string complaint(float momentum, const AlgorithmOptions& said) {
  std::string why;
  SimulatedCluster cluster(1, {}, 1);
  VirtualRanks(cluster).run([&](VirtualRank& place) {
    RankOverTransport rank(place.transport(), place.clock(), &place);
    TwoNumbers replica(momentum);
    Deaf deaf;
    Meeting meeting(rank.world().engine(), replica);
    try {
      find_recipe("easgd-grid")
          ->make({replica, rank.world().engine(), meeting, deaf, {.local_steps = kMeetsAtTheEnd, .algorithm = said}});
    } catch (const UsageError& error) {
      why = error.what();
    }
  });
  return why;
}

TEST(ElasticGrid, RefusesMomentumThatThereIsNot) {
  EXPECT_THAT(complaint(0, {{"average-momentum", "yes"}}), HasSubstr("average-momentum yes where all ranks meet at"));
  EXPECT_EQ(complaint(kMomentum, {{"average-momentum", "yes"}}), "");
  EXPECT_THAT(complaint(kMomentum, {{"average-statistics", "full"}}), HasSubstr("average-statistics full where"));
}

TEST(ElasticGrid, ExchangesNoMomentumThatThereIsNot) {
  EXPECT_THAT(complaint(0, {{"momentum-exchange", "yes"}}), HasSubstr("expected SGD with momentum"));
  EXPECT_EQ(complaint(kMomentum, {{"momentum-exchange", "yes"}}), "");
}

TEST(GridModel, HasTheMomentumOfAllParametersOfATypeInABucket) {
  TwoNumbers with(kMomentum), without(0);
  const std::vector<BucketSpec> parameters = with.parameter_buckets();
  using enum GridModel::Momentum;
  EXPECT_EQ(GridModel(with, local).buckets(), parameters);
  EXPECT_EQ(GridModel(without, averaged).buckets(), parameters);
  EXPECT_THAT(GridModel(with, averaged).buckets(),
              ElementsAre(parameters[0], parameters[1], BucketSpec{DataType::float32, 2}));
}

}  // namespace
}  // namespace stretto
