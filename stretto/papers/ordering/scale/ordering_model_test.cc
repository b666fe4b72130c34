#include "stretto/papers/ordering/scale/ordering_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace stretto {
namespace {

using ::testing::DoubleNear;
using ::testing::Pointwise;

// Times in the tests are milliseconds: the model knows no unit.
constexpr double kExact = 1e-9;

/// Everything takes no time but the computation, 12, and the transfer, 2.
OrderedJob job_of(int ranks) {
  OrderedJob job;
  job.ranks = ranks;
  job.compute = 12;
  job.cycle = 5;
  job.groups = {{1, 10}};
  job.cluster = {.ranks_per_host = ranks, .host_bandwidth = INFINITY, .link_bandwidth = INFINITY, .copy_bandwidth = 10};
  return job;
}

OrderedSteps run(const OrderedJob& job, const OrderingCosts& costs, OrderingScheme scheme, int steps = 3) {
  return predict_ordered_steps(job, costs, scheme, steps, 1, 0);
}

MATCHER_P(StepsAre, expected, "") {
  return ExplainMatchResult(Pointwise(DoubleNear(kExact), expected), arg.steps, result_listener);
}

TEST(OrderingModel, TransferIsRingTreeAndCopies) {
  const ClusterCosts cluster{
      .ranks_per_host = 4, .host_bandwidth = 100, .link_bandwidth = 50, .copy_bandwidth = 1000, .host_doubling = 3};
  EXPECT_DOUBLE_EQ(cluster.transfer(1000, 1), 2);
  EXPECT_DOUBLE_EQ(cluster.transfer(1000, 2), 2 + 10);
  EXPECT_DOUBLE_EQ(cluster.transfer(1000, 4), 2 + 15);
  EXPECT_DOUBLE_EQ(cluster.transfer(1000, 32), 2 + 15 + 40 + 9);
}

TEST(OrderingModel, CoordinatorIssuesAfterTheFirstCycleThatFindsAllReady) {
  // Cycles at 0, 5, 10, …, each with an allreduce of 1. Ready at 12: found at 15, issued at 16, over at 18. Then ready
  // at 30, found at once.
  const auto steps = run(job_of(2), {.control = 0.5, .control_doubling = 0.5}, OrderingScheme::coordinator);
  EXPECT_THAT(steps, StepsAre(std::vector<double>{18, 15, 15}));
  EXPECT_NEAR(steps.overhead, (4 + 1 + 1) / 3.0, kExact);
  EXPECT_NEAR(steps.computing, 12, kExact);
  EXPECT_NEAR(steps.waiting, 0, kExact);
  EXPECT_NEAR(steps.transfer, 2, kExact);
}

TEST(OrderingModel, GlobalSleepCostsASecondAllreduce) {
  // Each cycle: 1 for the sync, 1 for the minimum, 4 of sleep. Found at 12, issued at 13, over at 15; 27 → 30, 31, 33.
  const auto steps = run(job_of(2), {.control = 1}, OrderingScheme::gs);
  EXPECT_THAT(steps, StepsAre(std::vector<double>{15, 18, 18}));
}

TEST(OrderingModel, NonblockingLooksOneCycleLater) {
  // Looks at 0, 5, 10, …: ready at 12, said at 15, seen at 20, over at 22; ready at 34, said at 35, seen at 40.
  const auto steps = run(job_of(2), {.control = 1}, OrderingScheme::nbcs);
  EXPECT_THAT(steps, StepsAre(std::vector<double>{22, 20, 20}));
}

TEST(OrderingModel, PlannedIssuesWhenReady) {
  const auto steps = run(job_of(2), {.control = 1, .bookkeeping = 0.25}, OrderingScheme::topo);
  EXPECT_THAT(steps, StepsAre(std::vector<double>{14.25, 14.25, 14.25}));
  EXPECT_NEAR(steps.overhead, 0.25, kExact);
  EXPECT_EQ(steps.syncs, 0);
}

TEST(OrderingModel, GroupsAreReducedWhileOthersAreComputed) {
  OrderedJob job = job_of(2);
  job.groups = {{0.5, 40}, {0.75, 10}, {1, 10}};  // transfers of 8, 2 and 2, from 6, 14 and 16
  EXPECT_THAT(run(job, {}, OrderingScheme::topo), StepsAre(std::vector<double>{18, 18, 18}));
}

TEST(OrderingModel, SpinningTakesItsShareOfTheCores) {
  // One core, no input threads: two threads, of which a spinning one takes half. Spins of 2 at 0 and 5 make it 14, of
  // which the one at 10 takes one more: 15, found at 15, issued at 17.
  OrderedJob job = job_of(1);
  job.cores = 1;
  job.input_threads = 0;
  job.input = 100;
  const OrderingCosts costs{.control = 2};
  const auto steps = predict_ordered_steps(job, costs, OrderingScheme::coordinator, 1, 1, 0);
  EXPECT_THAT(steps, StepsAre(std::vector<double>{19}));
  EXPECT_NEAR(steps.computing, 15, kExact);
  EXPECT_NEAR(steps.processor, 4 * 2, kExact);
  EXPECT_NEAR(run(job, costs, OrderingScheme::scp, 1).computing, 12, kExact);
  job.input = 5.5;  // prolonged by 1 by the first; of the second only 1.5 falls into it
  EXPECT_NEAR(run(job, costs, OrderingScheme::coordinator, 1).computing, 13.75, kExact);
}

TEST(OrderingModel, OversleepOfABusyCoreWhileTheInputPipelineWorks) {
  OrderedJob job = job_of(1);
  job.cores = 1;
  job.input_threads = 1;
  job.input = 6;
  // Cycles at 0 and, 3 late, at 8; then the input pipeline is done: 13, issued then.
  const auto steps = run(job, {.oversleep_busy = DelayDistribution::of_samples({3})}, OrderingScheme::coordinator, 1);
  EXPECT_THAT(steps, StepsAre(std::vector<double>{15}));
}

/// Of the order of what threads take in reality, in seconds.
OrderingCosts uneven() {
  OrderingCosts costs;
  costs.oversleep_free = DelayDistribution::exponential(60e-6);
  costs.oversleep_busy = DelayDistribution::exponential(2e-3);
  costs.control = 10e-6;
  costs.control_doubling = 5e-6;
  costs.look = 20e-6;
  costs.preemption_rate = 20;
  costs.pause_rate = 10;
  costs.pause = DelayDistribution::exponential(3e-3);
  return costs;
}

OrderedJob of_seconds(int ranks) {
  OrderedJob job;
  job.ranks = ranks;
  job.compute = 56e-3;
  job.input = 27e-3;
  job.groups = {{1, 51e6}};
  job.cluster = {.host_bandwidth = 50e9, .link_bandwidth = 25e9, .copy_bandwidth = 500e9};
  return job;
}

TEST(OrderingModel, SkewIsHandedOnAndGlobalSleepForgetsIt) {
  for (const int ranks : {6, 96}) {
    const auto coordinator = predict_ordered_steps(of_seconds(ranks), uneven(), OrderingScheme::coordinator, 100, 1);
    const auto gs = predict_ordered_steps(of_seconds(ranks), uneven(), OrderingScheme::gs, 100, 1);
    EXPECT_GT(coordinator.skew_correlation[0], 0.8) << ranks;
    EXPECT_LT(std::abs(gs.skew_correlation[0]), 0.1) << ranks;
    EXPECT_LT(gs.processor, coordinator.processor) << ranks;
  }
}

TEST(OrderingModel, TheSameSeedTheSameBits) {
  for (const OrderingScheme scheme : kOrderingSchemes) {
    const auto first = predict_ordered_steps(of_seconds(33), uneven(), scheme, 20, 7);
    EXPECT_EQ(first.steps, predict_ordered_steps(of_seconds(33), uneven(), scheme, 20, 7).steps) << name_of(scheme);
    EXPECT_NE(first.steps, predict_ordered_steps(of_seconds(33), uneven(), scheme, 20, 8).steps) << name_of(scheme);
  }
}

TEST(OrderingModel, PartsMakeTheStep) {
  for (const OrderingScheme scheme : kOrderingSchemes) {
    const auto steps = predict_ordered_steps(of_seconds(16), uneven(), scheme, 20, 3);
    EXPECT_NEAR(steps.mean_step(), steps.computing + steps.overhead + steps.waiting + steps.transfer, 1e-12);
    EXPECT_GE(steps.computing, 56e-3);
    EXPECT_GE(steps.waiting, 0);
  }
}

}  // namespace
}  // namespace stretto
