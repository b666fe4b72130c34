#include "stretto/train/job/run_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/base/error.h"
#include "stretto/train/recipes/sync.h"

namespace stretto {
namespace {

using testing::HasSubstr;

TaskFacts facts() {
  return {.name = "tiny", .unit = "row", .samples = 100, .batch = 5, .lr = 0.25, .momentum = 0.5, .epochs = 3};
}

std::string complaint(const TrainOptions& options, const TaskFacts& task = facts()) {
  try {
    plan_run(options, task);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(RunPlan, TakesDefaultsFromTaskAndAlgorithm) {
  const RunPlan plan = plan_run({.algorithm = "eager-quorum", .ranks = 3}, facts());
  EXPECT_EQ(plan.options.batch, 5);
  EXPECT_EQ(plan.options.lr, 0.25);
  EXPECT_EQ(plan.options.momentum, 0.5);
  EXPECT_EQ(plan.options.epochs, 3u);
  EXPECT_EQ(plan.options.quorum, 2);
  EXPECT_EQ(plan.algorithm.policy, Policy::at_least(2));
  EXPECT_EQ(plan.sharing, Sharing::shared);
  EXPECT_EQ(plan.total_batches, 60u);
  EXPECT_EQ(plan_run({.algorithm = "sync"}, facts()).sharing, Sharing::partitioned);
  EXPECT_EQ(plan_run({.algorithm = "local"}, facts()).recipe.local_steps, 8u);
}

TEST(RunPlan, KeepsWhatWasSaid) {
  const RunPlan plan = plan_run(
      {.algorithm = "eager-quorum:4", .ranks = 4, .steps = 7, .batch = 2, .lr = 1, .momentum = 0, .data = "sampled"},
      facts());
  EXPECT_EQ(plan.algorithm.policy, Policy::at_least(4));
  EXPECT_EQ(plan.total_batches, 28u) << "steps × ranks";
  EXPECT_EQ(plan.options.momentum, 0);
  EXPECT_EQ(plan.sharing, Sharing::sampled);
}

TEST(RunPlan, GivesNoAlgorithmTheQuorumOfAnother) {
  const auto policy = [](const std::string&, int, int quorum) {
    return quorum == 0 ? Policy::full() : Policy::at_least(quorum);
  };
  register_recipe(
      {.name = "own-quorum", .description = "for a test", .data = "shared", .policy = policy, .make = make_sync});
  const TrainOptions once = plan_run({.algorithm = "own-quorum", .ranks = 4}, facts()).options;
  EXPECT_EQ(plan_run(once, facts()).algorithm.policy, Policy::full()) << "planned again";
  EXPECT_EQ(plan_run({.algorithm = "own-quorum", .ranks = 4, .quorum = 2}, facts()).algorithm.policy, Policy::full())
      << "of a comparison with eager-quorum";
}

TEST(RunPlan, SeatsAreAtMostTheRanks) {
  for (int seats = 0; seats <= 4; ++seats) {
    EXPECT_EQ(plan_run({.ranks = 4, .seats = seats}, facts()).recipe.seats, seats);
  }
  EXPECT_THAT(complaint({.ranks = 4, .seats = 5}),
              HasSubstr("seats 5: expected a number from 1, for messages alone, to 4, the number of ranks"));
  EXPECT_THAT(complaint({.ranks = 4, .seats = -1}), HasSubstr("seats -1"));
}

TEST(RunPlan, HandsOverDuringTheBackwardPassOnlyWhereNoSleepFollowsIt) {
  EXPECT_TRUE(plan_run({}, facts()).recipe.overlap);
  EXPECT_FALSE(plan_run({.pace = std::chrono::microseconds(50)}, facts()).recipe.overlap);
  EXPECT_FALSE(plan_run({.imbalance = "linear:1ms..4ms"}, facts()).recipe.overlap);
}

TEST(RunPlan, APassThatIsStretchedGoesByLayerWhereItIsToldTo) {
  TrainOptions options{.algorithm = "ps-sync", .ranks = 2, .pace = std::chrono::milliseconds(1)};
  for (const bool simulated : {false, true}) {
    options.simulated = simulated;
    options.algorithm_options = {};
    const RunPlan before = plan_run(options, facts());
    EXPECT_FALSE(before.algorithm.recipe->by_layer(before.recipe));
    options.algorithm_options.set("layerwise", "yes");
    const RunPlan told = plan_run(options, facts());
    EXPECT_TRUE(told.algorithm.recipe->by_layer(told.recipe));
  }
}

TEST(RunPlan, HasFullRoundsWhereCheckpointsAndSynchronizationsFall) {
  TrainOptions options{.algorithm = "eager-solo", .sync_every = 60, .checkpoint_every = 40, .out = "somewhere"};
  EXPECT_EQ(plan_run(options, facts()).recipe.full_every, 20u);
  options.sync_every = 0;
  EXPECT_EQ(plan_run(options, facts()).recipe.full_every, 40u);
  options.algorithm = "sync";
  EXPECT_EQ(plan_run(options, facts()).recipe.full_every, 0u) << "all of its rounds are full";
  options.algorithm = "ps-sync";
  options.evaluate_every = 30;
  EXPECT_EQ(plan_run(options, facts()).recipe.full_every, 10u) << "between them ranks are at different steps";
}

TEST(RunPlan, ScalesPaceAndDelays) {
  const RunPlan plan = plan_run(
      {.imbalance = "persistent:rank=1,delay=40ms", .pace = std::chrono::milliseconds(2), .time_scale = 0.5}, facts());
  EXPECT_EQ(drawn_step_time(plan, 1, 0, 10, 0), std::chrono::milliseconds(10 + 20));
  EXPECT_EQ(drawn_step_time(plan, 0, 0, 10, 0), std::chrono::milliseconds(10));
}

TEST(RunPlan, WithoutPaceAStepTakesWhatComputingTakes) {
  const RunPlan plan = plan_run({.imbalance = "persistent:rank=1,factor=3"}, facts());
  EXPECT_EQ(drawn_step_time(plan, 1, 0, 10, 0.001), std::chrono::milliseconds(30));
}

TEST(RunPlan, SaysWhatDoesNotFitAndWhatWould) {
  EXPECT_THAT(complaint({.ranks = 0}), HasSubstr("ranks 0: expected a whole number from 1 to 1024, as in ranks 4"));
  EXPECT_THAT(complaint({.ranks = -2}), HasSubstr("ranks -2"));
  EXPECT_THAT(complaint({.algorithm = "eager-magic"}), HasSubstr("unknown algorithm 'eager-magic': "));
  EXPECT_THAT(complaint({.algorithm = "sync:3"}), HasSubstr("algorithm 'sync:3': expected sync"));
  EXPECT_THAT(complaint({.algorithm = "eager-quorum:"}), HasSubstr("expected eager-quorum[:Q]"));
  EXPECT_THAT(complaint({.algorithm = "eager-quorum:5"}), HasSubstr("a number from 1 to 4"));
  EXPECT_THAT(complaint({.algorithm = "eager-deadline"}), HasSubstr("eager-deadline:2,20ms"));
  EXPECT_THAT(complaint({.algorithm = "eager-quorum", .quorum = 9}),
              HasSubstr("quorum 9: expected a number from 1 to 4"));
  EXPECT_THAT(complaint({.imbalance = "sometimes"}), HasSubstr("imbalance 'sometimes'"));
  EXPECT_THAT(complaint({.steps = 3, .epochs = 2}), HasSubstr("either steps or epochs"));
  EXPECT_THAT(complaint({.lr = -1}), HasSubstr("learning rate -1"));
  EXPECT_THAT(complaint({.lr = 1e308}), HasSubstr("learning rate 1e+308: expected a number above 0 that a float32"));
  EXPECT_THAT(complaint({.momentum = 1}), HasSubstr("momentum 1"));
  EXPECT_THAT(complaint({.data = "stolen"}),
              HasSubstr("data 'stolen': expected shared, partitioned, ring, sampled or labels:K"));
  EXPECT_THAT(complaint({.data = "labels"}), HasSubstr("data labels:3: expected samples with labels"));
  EXPECT_THAT(complaint({.max_lag = 0}), HasSubstr("max-lag 0"));
  EXPECT_THAT(complaint({.delivery = "sometimes"}), HasSubstr("delivery sometimes: expected every or latest"));
  EXPECT_THAT(complaint({.algorithm = "sync", .delivery = "latest"}), HasSubstr("expected an eager one"));
  EXPECT_THAT(complaint({.checkpoint_every = 10}), HasSubstr("a run folder"));
  EXPECT_THAT(complaint({.time_scale = 0}), HasSubstr("time scale 0"));
  EXPECT_THAT(complaint({.input_threads = 2}), HasSubstr("input-threads 2: expected input-load"));
  EXPECT_THAT(complaint({.input_load = std::chrono::milliseconds(5)}),
              HasSubstr("input-threads 0: expected input-load"));
  EXPECT_THAT(complaint({.ranks = 200}), HasSubstr("100 samples for 200 ranks"));
}

TEST(RunPlan, AModelThatSumsInItsPassesNeedsAllRanksAtTheSameStep) {
  TaskFacts summing = facts();
  summing.sums_in_passes = true;
  EXPECT_EQ(complaint({.algorithm = "sync", .ranks = 1}, summing), "");
  for (const char* algorithm : {"eager-quorum", "eager-solo", "local", "wagma", "ps-sync"}) {
    EXPECT_THAT(complaint({.algorithm = algorithm, .ranks = 2}, summing),
                HasSubstr("with tiny, whose model sums over all ranks in each pass: expected sync"))
        << algorithm;
    EXPECT_EQ(complaint({.algorithm = algorithm, .ranks = 2}), "") << algorithm;
  }
  EXPECT_EQ(complaint({.algorithm = "sync", .ranks = 2}, summing), "");
  EXPECT_EQ(complaint({.ranks = 2, .algorithm_options = {{"ordering", "coordinator"}}}, summing), "");
  EXPECT_THAT(complaint({.ranks = 2, .algorithm_options = {{"ordering", "none"}}}, summing),
              HasSubstr("ordering none with tiny, whose model sums over all ranks in each pass: expected one"));
  EXPECT_THAT(complaint({.ranks = 2, .pace = std::chrono::milliseconds(1), .simulated = true}, summing),
              HasSubstr("simulated tiny: expected a real run"));
}

TEST(RunPlan, OptionsOfTheOrderThatAModelGetsByItselfAreTaken) {
  TaskFacts summing = facts();
  summing.sums_in_passes = true;
  const TrainOptions options{.algorithm = "sync", .ranks = 2, .algorithm_options = {{"cycle-time", "1ms"}}};
  EXPECT_THAT(complaint(options), HasSubstr("cycle-time 1ms with ordering none: expected one that orders"));
  EXPECT_EQ(complaint(options, summing), "");
  const RunPlan plan = plan_run(options, summing);
  EXPECT_EQ(plan.recipe.algorithm.word("ordering", ""), "topo");
  EXPECT_FALSE(plan.options.algorithm_options.given("ordering")) << "as it was said";
  EXPECT_THAT(complaint({.algorithm = "sync", .ranks = 2, .algorithm_options = {{"gs-every", "2"}}}, summing),
              HasSubstr("gs-every 2 with ordering topo: expected gs"));
  EXPECT_FALSE(plan_run({.algorithm = "sync", .ranks = 2}, facts()).recipe.algorithm.given("ordering"));
}

TEST(RunPlan, ABackgroundThreadOfItsOwnNeedsAHelperThread) {
  for (const ProgressBy by : {ProgressBy::application, ProgressBy::thread}) {
    const bool helped = by == ProgressBy::thread;
    const std::string scp = complaint({.algorithm = "sync",
                                       .ranks = 2,
                                       .algorithm_options = {{"ordering", "gs+scp"}, {"cores", "shared"}},
                                       .progress_by = by});
    EXPECT_EQ(scp.empty(), helped) << scp;
    if (!helped) {
      EXPECT_THAT(scp, HasSubstr("ordering gs+scp with progress-by application: expected progress-by thread"));
    }
    const std::string only = complaint({.algorithm = "sync",
                                        .ranks = 2,
                                        .algorithm_options = {{"ordering", "topo"}, {"background-only", "yes"}},
                                        .progress_by = by});
    EXPECT_EQ(only.empty(), helped) << only;
    if (!helped) {
      EXPECT_THAT(only, HasSubstr("background-only yes with progress-by application: expected progress-by thread"));
    }
    EXPECT_EQ(
        complaint({.algorithm = "sync", .ranks = 2, .algorithm_options = {{"ordering", "topo"}}, .progress_by = by}),
        "");
  }
}

TEST(RunPlan, PartsByLabelNeedLabels) {
  TaskFacts labelled = facts();
  labelled.classifies = true;
  EXPECT_EQ(plan_run({.data = "labels"}, labelled).options.data, "labels:3") << "the labels are not known yet";
  for (std::uint32_t sample = 0; sample < 100; ++sample) labelled.labels.push_back(sample % 8);
  const RunPlan plan = plan_run({.ranks = 4, .data = "labels:4"}, labelled);
  EXPECT_EQ(plan.sharing, Sharing::labels);
  EXPECT_EQ(plan.batches.labels_a_rank, 4);
  EXPECT_THAT(complaint({.ranks = 4, .data = "labels:1"}, labelled), HasSubstr("data labels:1 on 4 ranks"));
  EXPECT_THAT(
      complaint({.algorithm = "ps-async", .data = "labels:6", .algorithm_options = {{"servers", "dedicated:1"}}},
                labelled),
      HasSubstr("servers dedicated:1 with data labels:6: expected data shared"));
  EXPECT_TRUE(plan_run({.data = "shared"}, labelled).batches.labels.empty());
}

TEST(RunPlan, RanksThatMeetAtTheEndAloneMeetForCheckpointsAndForEvaluationsOfTheAverage) {
  const auto own_steps = [](TrainOptions options) {
    options.ranks = 4;
    options.out = "runs/first";
    return plan_run(options, facts()).recipe.local_steps;
  };
  for (const char* algorithm : {"d-psgd", "sgp", "osgp", "gossip-grad", "ad-psgd"}) {
    EXPECT_EQ(own_steps({.algorithm = algorithm}), kMeetsAtTheEnd);
    EXPECT_EQ(own_steps({.algorithm = algorithm, .checkpoint_every = 40}), 10u) << algorithm;
    EXPECT_EQ(own_steps({.algorithm = algorithm, .checkpoint_every = 41}), 11u) << algorithm;
    EXPECT_EQ(own_steps({.algorithm = algorithm, .checkpoint_every = 60}), kMeetsAtTheEnd) << "which has 60 batches";
    EXPECT_EQ(own_steps({.algorithm = algorithm, .evaluate_every = 3}), 1u) << algorithm;
    EXPECT_EQ(own_steps({.algorithm = algorithm, .evaluate_every = 20, .checkpoint_every = 32}), 5u) << algorithm;
    EXPECT_EQ(own_steps({.algorithm = algorithm, .evaluate_every = 20, .evaluate = "replica"}), kMeetsAtTheEnd);
    EXPECT_EQ(own_steps({.algorithm = algorithm, .sync_every = 7, .checkpoint_every = 40}), 7u) << "as it was said";
  }
  EXPECT_EQ(own_steps({.algorithm = "local", .checkpoint_every = 40}), 8u);
}

TEST(RunPlan, WhatGoesOnWritesWhereItCameFrom) {
  const RunPlan plan = plan_run({.checkpoint_every = 10, .resume = "runs/first"}, facts());
  EXPECT_EQ(plan.options.out, "runs/first");
  EXPECT_EQ(plan_run({.resume = "runs/first", .out = "runs/second"}, facts()).options.out, "runs/second");
}

TEST(RunPlan, AnAlgorithmOfOnesOwnKeepsItsOwnOptionsAlone) {
  static constexpr AlgorithmOption kShare[] = {
      {"planned-share", "X", "planned: a share.", "0.5", AlgorithmOption::Kind::number, 0, 1}};
  RecipeInfo recipe = *find_recipe("sync");
  recipe.name = "planned";
  recipe.own_options = kShare;
  register_recipe(recipe);
  const RunPlan plan =
      plan_run({.algorithm = "planned", .algorithm_options = {{"planned-share", "0.25"}, {"alpha", "0.1"}}}, facts());
  EXPECT_EQ(plan.algorithm.recipe, find_recipe("planned"));
  EXPECT_EQ(plan.recipe.algorithm.to_string(), "planned-share=0.25");
}

TEST(RunPlan, WhereMembersChangeAQuorumIsOfThoseThatAreThere) {
  const auto quorum_of_three = [](const char* algorithm) {
    return plan_run({.algorithm = algorithm, .ranks = 8, .least = 1}, facts()).policy_of(3);
  };
  for (const char* algorithm : {"eager-quorum", "diloco:quorum", "local:quorum"}) {
    EXPECT_EQ(quorum_of_three(algorithm), Policy::at_least(2)) << algorithm;
  }
  EXPECT_EQ(quorum_of_three("local:quorum:2"), Policy::at_least(2));
  EXPECT_EQ(quorum_of_three("diloco:quorum:6"), Policy::at_least(3)) << "there are no more";
  EXPECT_EQ(quorum_of_three("diloco"), Policy::full());
  EXPECT_EQ(quorum_of_three("local"), Policy::full());
}

TEST(RunPlan, RefusesByNameWhatDoesNotGoOnWhereMembersChange) {
  for (const char* algorithm : {"ps-async", "ps-sync"}) {
    EXPECT_THAT(complaint({.algorithm = algorithm, .ranks = 4, .least = 2}),
                HasSubstr(text("ranks 2:4 with algorithm '", algorithm, "': expected one that goes on")));
  }
  TrainOptions wagma{.algorithm = "wagma", .ranks = 4, .least = 2};
  EXPECT_EQ(complaint(wagma), "");
  wagma.algorithm_options.set("tau", "1001");
  EXPECT_EQ(complaint(wagma), "ranks 2:4 with tau 1001: expected at most 1000");
  EXPECT_EQ(complaint({.algorithm = "local:solo", .ranks = 4, .least = 2, .sync_every = 1000}), "");
  TrainOptions grid{.algorithm = "easgd-grid", .ranks = 6, .least = 4, .sync_every = 1000};
  grid.algorithm_options.set("dimensions", "2");
  EXPECT_EQ(complaint(grid), "") << "so many are always left";
  grid.least = 3;
  EXPECT_EQ(complaint(grid), "") << "fewer make a grid of fewer dimensions";
  grid.algorithm_options.set("dimensions", "3");
  EXPECT_THAT(complaint(grid), HasSubstr("a grid of 6 nodes in 3 dimensions"));
  EXPECT_EQ(complaint({.algorithm = "diloco", .ranks = 4, .least = 2, .sync_every = 1001}),
            "ranks 2:4 with sync-every 1001: expected at most 1000, since rounds count the batches of each rank");
  EXPECT_EQ(complaint({.algorithm = "diloco", .ranks = 4, .sync_every = 1001}), "");
  TrainOptions many{.algorithm = "sync", .ranks = 257, .least = 2};
  EXPECT_EQ(complaint(many), "ranks 2:257: expected at most 256, or a simulated run");
  many.simulated = true;
  many.pace = std::chrono::milliseconds(1);
  many.ranks = 1024;
  TaskFacts large = facts();
  large.samples = 10'000;
  EXPECT_EQ(complaint(many, large), "");
  many.algorithm = "wagma";
  EXPECT_THAT(complaint(many, large), HasSubstr("ranks that change: expected at most 256, whose headers name them"));
}

}  // namespace
}  // namespace stretto
