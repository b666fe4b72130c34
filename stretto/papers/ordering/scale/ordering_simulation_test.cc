#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "stretto/papers/ordering/scale/ordering_calibration.h"
#include "stretto/papers/ordering/scale/ordering_model.h"

namespace stretto {
namespace {

using ::testing::DoubleNear;
using ::testing::Pointwise;

constexpr double kNanosecond = 1e-9;

/// On cores enough for all threads: 11.5 ms of computation, 2 of transfer, cycles of 5, a sync of 1.
std::vector<double> steps_of(OrderingScheme scheme) {
  OrderedJob job;
  job.ranks = 2;
  job.cores = 9;
  job.compute = 11.5e-3;
  job.groups = {{1, 1}};
  job.cluster = {.ranks_per_host = 2, .host_bandwidth = 1e300, .link_bandwidth = 1e300, .copy_bandwidth = 1e3};
  return simulate_ordered_steps(job, {.control = 1e-3, .bookkeeping = 0.25e-3}, scheme, 3, 1, 0).steps;
}

TEST(OrderingSimulation, HasTheTimelinesOfTheRecurrences) {
  // As in ordering_model_test.cc, but no two things happen at one time.
  const auto near = [](const std::vector<double>& steps) { return Pointwise(DoubleNear(20 * kNanosecond), steps); };
  EXPECT_THAT(steps_of(OrderingScheme::coordinator), near({18e-3, 15e-3, 15e-3}));
  EXPECT_THAT(steps_of(OrderingScheme::scp), near({18e-3, 15e-3, 15e-3}));
  EXPECT_THAT(steps_of(OrderingScheme::nbcs), near({22e-3, 20e-3, 20e-3}));
  EXPECT_THAT(steps_of(OrderingScheme::topo), near({13.75e-3, 13.75e-3, 13.75e-3}));
}

TEST(OrderingSimulation, ASpinningThreadTakesTheCoreOfOthers) {
  // One core, two threads, a slice of 1. Each sync of 2 takes one of its two milliseconds from the computation.
  OrderedJob job;
  job.ranks = 1;
  job.cores = 1;
  job.input_threads = 0;
  job.compute = 12e-3;
  job.groups = {{1, 0}};
  job.cluster = {.host_bandwidth = 1, .link_bandwidth = 1, .copy_bandwidth = 1};
  const auto steps = simulate_ordered_steps(job, {.control = 2e-3}, OrderingScheme::coordinator, 1, 1, 0, 1e-3);
  EXPECT_GT(steps.computing, 14e-3);
  EXPECT_LT(steps.computing, 16.5e-3);
  job.cores = 2;
  const auto alone = simulate_ordered_steps(job, {.control = 2e-3}, OrderingScheme::coordinator, 1, 1, 0, 1e-3);
  EXPECT_NEAR(alone.computing, 12e-3, 20 * kNanosecond);
}

TEST(OrderingSimulation, AgreesWithTheRecurrences) {
  const OrderingCosts costs = paper_calibration().costs;
  for (const int ranks : {6, 24, 96}) {
    for (const OrderingScheme scheme : kOrderingSchemes) {
      constexpr int kSteps = 20;
      const double vector = predict_ordered_steps(paper_job(ranks), costs, scheme, kSteps, 1).mean_step();
      const double cores = simulate_ordered_steps(paper_job(ranks), costs, scheme, kSteps, 1).mean_step();
      EXPECT_NEAR(cores / vector, 1, 0.1) << name_of(scheme) << " on " << ranks << " ranks";
    }
  }
}

TEST(OrderingSimulation, TheSameSeedTheSameBits) {
  const OrderingCosts costs = paper_calibration().costs;
  for (const OrderingScheme scheme : kOrderingSchemes) {
    const auto once = [&](std::uint64_t seed) {
      return simulate_ordered_steps(paper_job(7), costs, scheme, 5, seed, 2).steps;
    };
    EXPECT_EQ(once(1), once(1)) << name_of(scheme);
    EXPECT_NE(once(1), once(2)) << name_of(scheme);
  }
}

}  // namespace
}  // namespace stretto
