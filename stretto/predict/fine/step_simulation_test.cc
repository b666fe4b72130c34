#include "stretto/predict/fine/step_simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/random.h"
#include "stretto/predict/coarse/coarse_prediction.h"
#include "stretto/predict/fine/testing/plain_steps.h"

namespace stretto {
namespace {

TEST(MeasuredWindow, LeavesOutTheFirstTenth) {
  std::vector<double> ends;
  for (int step = 0; step <= 20; ++step) ends.push_back(step * 0.5);
  EXPECT_EQ(measured_window(ends).begin, 1);
  EXPECT_EQ(measured_window(ends).end, 10);
  EXPECT_EQ(measured_window(std::vector<double>{0, 3}).begin, 0);  // of few steps none
}

TEST(SteadyRate, DoesNotDependOnWhereTheWindowCutsAStep) {
  const std::vector<double> ends{0, 2, 4, 6, 8, 10, 12};
  for (const double begin : {2.0, 2.5, 3.99}) EXPECT_EQ(steady_rate(ends, {begin, 11}), 0.5) << begin;
}

TEST(SteadyRate, CountsWhatAVerySlowWorkerHasDone) {
  EXPECT_EQ(steady_rate(std::vector<double>{0, 7}, {1, 9}), 1 / 8.0);
  EXPECT_EQ(steady_rate(std::vector<double>{0}, {1, 9}), 0);
  EXPECT_EQ(steady_rate(std::vector<double>{0, 20}, {1, 9}), 0);
}

TEST(SteadyRate, IsInfiniteWhereStepsTakeNoTime) {
  EXPECT_TRUE(std::isinf(steady_rate(std::vector<double>{0, 0, 0}, {0, 0})));
}

constexpr double kTiny = 1e-9;  // relative

/// `count` equal layers, one behind the other, with these totals: seconds, but bytes.
ProfiledStep chain(int count, double bytes, double forward, double backward, double update) {
  ProfiledStep layers;
  for (int index = 0; index < count; ++index)
    layers.push_back({.name = "layer" + std::to_string(index),
                      .bytes = bytes / count,
                      .forward = forward / count,
                      .backward = backward / count,
                      .update = update / count,
                      .after = index > 0 ? std::vector{index - 1} : std::vector<int>{}});
  return layers;
}

/// M = 6, B = 2: m = 3 s; F = 1 s, B = 2 s, s = 0.5 s.
TrainingJob small_job(int workers, Coordination mode, int layers = 1) {
  TrainingJob job;
  job.bandwidth = 2;
  job.mode = mode;
  job.steps = 40;
  job.classes = {{.count = workers, .batch = 8, .steps = {chain(layers, 6, 1, 2, 0.5)}}};
  return job;
}

double seconds_per_step(const TrainingJob& job, LinkSharing sharing, StepSimulationOptions options = {}) {
  options.sharing = sharing;
  return static_cast<double>(job.workers()) / simulate_steps(job, options).steps_per_s;
}

#define EXPECT_CLOSE(value, expected) EXPECT_NEAR(value, expected, kTiny* std::abs(expected))

constexpr LinkSharing kBoth[] = {LinkSharing::equal_shares, LinkSharing::in_order};

TEST(SimulateSteps, OfOneWorkerTakesThePhasesOneAfterTheOther) {
  for (const LinkSharing sharing : kBoth)
    for (const Coordination mode : {Coordination::asynchronous, Coordination::synchronous})
      EXPECT_CLOSE(seconds_per_step(small_job(1, mode), sharing), 3 + 1 + 2 + 3 + 0.5);
  EXPECT_CLOSE(seconds_per_step(small_job(1, Coordination::allreduce), LinkSharing::equal_shares), 1 + 2 + 0.5);
}

TEST(SimulateSteps, ReproducesEquations7And8And11) {
  for (const bool overlap : {true, false}) {  // of one layer nothing overlaps
    for (const int workers : {2, 3, 5, 16}) {
      const double k = workers;
      TrainingJob job = small_job(workers, Coordination::synchronous);
      job.overlap = overlap;
      EXPECT_CLOSE(seconds_per_step(job, LinkSharing::equal_shares), 2 * k * 3 + 1 + 2 + 0.5);
      EXPECT_CLOSE(seconds_per_step(job, LinkSharing::in_order), (k + 1) * 3 + 1 + 2 + 0.5);
      job.mode = Coordination::allreduce;
      EXPECT_CLOSE(seconds_per_step(job, LinkSharing::equal_shares), 1 + 2 + 2 * (k - 1) * 3 / k + 0.5);
    }
  }
}

TEST(SimulateSteps, OfEqualLayersThatOverlapTakesWhatTheSpecificationComputes) {
  for (const int layers : {1, 2, 10, 160})
    for (const int workers : {1, 2, 7}) {
      TrainingJob job = small_job(workers, Coordination::synchronous);
      job.bandwidth = 1;
      job.classes[0].steps = {chain(layers, 1, 1, 1, 0)};
      EXPECT_CLOSE(seconds_per_step(job, LinkSharing::equal_shares), 2 * workers + 2.0 / layers);
      EXPECT_CLOSE(seconds_per_step(job, LinkSharing::in_order), workers + 1 + 2.0 / layers);
    }
}

/// A job with everything drawn that the plain simulation knows. No two workers are alike: of those that come to a link
/// at the same time but for rounding either may be the first.
TrainingJob drawn_job(Random& random) {
  TrainingJob job;
  job.bandwidth = 1 + random.uniform();
  job.overlap = random.chance(0.7);
  job.mode = random.chance(0.5) ? Coordination::asynchronous : Coordination::synchronous;
  job.steps = static_cast<int>(random.between(1, 12));
  if (random.chance(0.4)) job.flow_cap = job.bandwidth * (0.2 + random.uniform());
  for (auto classes = random.between(1, 6); classes > 0; --classes) {
    WorkerClass workers{.count = 1};
    ProfiledStep layers;
    for (int layer = 0, count = static_cast<int>(random.between(1, 5)); layer < count; ++layer) {
      layers.push_back({.name = "layer",
                        .bytes = 0.01 + random.uniform(),
                        .forward = random.uniform(),
                        .backward = random.uniform(),
                        .update = 0.01 + random.uniform()});
      for (int source = 0; source < layer; ++source)
        if (random.chance(source == layer - 1 ? 0.7 : 0.3)) layers.back().after.push_back(source);
    }
    workers.steps = {layers};
    job.classes.push_back(workers);
  }
  return job;
}

/// When the steps of each host ended that were simulated to their end. Requires: one worker a class.
std::vector<std::vector<double>> simulated_step_ends(const TrainingJob& job, LinkSharing sharing) {
  struct Step {
    std::size_t operations = 0;
    double end = 0;
  };
  std::map<std::pair<int, int>, Step> steps;
  std::map<int, Step> all;  // by number
  simulate_steps(job, {.sharing = sharing, .on_operation = [&](const SimulatedOperation& operation) {
                         for (Step* step : {&steps[{operation.host, operation.step}], &all[operation.step]}) {
                           ++step->operations;
                           step->end = std::max(step->end, operation.end);
                         }
                       }});
  std::vector<std::vector<double>> ends;
  for (const WorkerClass& worker : job.classes) {
    const auto host = static_cast<int>(ends.size());
    ends.emplace_back();
    for (int number = 0; steps[{host, number}].operations == 5 * worker.steps[0].size(); ++number)
      ends.back().push_back(job.mode == Coordination::asynchronous ? steps[{host, number}].end : all[number].end);
  }
  return ends;
}

TEST(SimulateSteps, EndsEveryStepWhenTheAlgorithmWrittenDownPlainlyEndsIt) {
  Random random(20);
  for (int drawn = 0; drawn < 400; ++drawn) {
    const TrainingJob job = drawn_job(random);
    for (const LinkSharing sharing : kBoth) {
      const auto plain = plain_step_ends(job, sharing);
      const auto simulated = simulated_step_ends(job, sharing);
      ASSERT_EQ(simulated.size(), plain.size());
      std::size_t most = 0;  // asynchronous: the simulation ends when the first host is done
      for (std::size_t host = 0; host < plain.size(); ++host) {
        most = std::max(most, simulated[host].size());
        ASSERT_LE(simulated[host].size(), plain[host].size());
        for (std::size_t step = 0; step < simulated[host].size(); ++step)
          ASSERT_NEAR(simulated[host][step], plain[host][step], kTiny * plain[host][step])
              << "job " << drawn << ", host " << host << ", step " << step;
      }
      ASSERT_EQ(most, static_cast<std::size_t>(job.steps));
    }
  }
}

TEST(SimulateSteps, ScalesWithAllTimes) {
  Random random(3);
  for (int drawn = 0; drawn < 100; ++drawn) {
    TrainingJob job = drawn_job(random);
    job.steps = 30;
    const double before = simulate_steps(job, {}).steps_per_s;
    job.bandwidth /= 4;  // a power of two: rounding scales, too
    if (job.flow_cap) *job.flow_cap /= 4;
    for (WorkerClass& workers : job.classes)
      for (Layer& layer : workers.steps[0]) {
        layer.forward *= 4;
        layer.backward *= 4;
        layer.update *= 4;
      }
    ASSERT_EQ(simulate_steps(job, {}).steps_per_s, before / 4);
  }
}

TEST(SimulateSteps, NeverLosesThroughputByAnotherWorkerNorBeatsTheSlowestAlone) {
  for (const LinkSharing sharing : kBoth) {
    double before = 0;
    for (int workers = 1; workers <= 12; ++workers) {
      TrainingJob job = small_job(workers, Coordination::asynchronous, 5);
      job.steps = 400;
      const double rate = simulate_steps(job, {.sharing = sharing}).steps_per_s;
      EXPECT_GE(rate, before * (1 - kTiny)) << workers;
      EXPECT_LE(rate, 1 / 3.0 * (1 + kTiny));  // the link's, of m = 3 s
      before = rate;

      job.mode = Coordination::synchronous;
      job.classes.push_back({.count = 1, .batch = 8, .steps = {chain(5, 6, 4, 5, 0.5)}});
      TrainingJob slowest = job;
      slowest.classes.erase(slowest.classes.begin());
      EXPECT_GE(seconds_per_step(job, sharing), seconds_per_step(slowest, sharing) * (1 - kTiny));
    }
  }
}

TEST(SimulateSteps, DrawsTheStepsThatWereProfiled) {
  TrainingJob job = small_job(1, Coordination::asynchronous);
  job.steps = 20000;
  job.classes[0].steps = {chain(1, 0, 1, 0, 0), chain(1, 0, 3, 0, 0)};
  const SimulatedSteps steps = simulate_steps(job, {});
  EXPECT_NEAR(1 / steps.steps_per_s, 2, 0.04);
  EXPECT_EQ(steps.step_seconds.front(), 1);
  EXPECT_NEAR(steps.step_seconds.back(), 3, 1e-9);
  EXPECT_EQ(steps.step_seconds.size(), 18000U);
  EXPECT_EQ(simulate_steps(job, {}).steps_per_s, steps.steps_per_s);
  EXPECT_NE(simulate_steps(job, {.seed = 2}).steps_per_s, steps.steps_per_s);
}

TEST(SimulateSteps, OfWorkersThatDifferCountsEachAtItsOwnRate) {
  TrainingJob job = small_job(2, Coordination::asynchronous);
  job.classes = {{.count = 2, .batch = 10, .steps = {chain(1, 0, 1, 1, 0)}},
                 {.count = 1, .batch = 20, .steps = {chain(1, 0, 4, 4, 0)}}};
  const SimulatedSteps steps = simulate_steps(job, {});
  EXPECT_CLOSE(steps.class_steps_per_s[0], 0.5);
  EXPECT_CLOSE(steps.class_steps_per_s[1], 0.125);
  EXPECT_CLOSE(steps.steps_per_s, 1.125);
  EXPECT_CLOSE(steps.examples_per_s, 10 + 2.5);
}

TEST(SimulateSteps, OfOneHostTransfersOnceForAllItsWorkers) {
  TrainingJob job = small_job(4, Coordination::synchronous);
  job.gpus_per_host = 4;
  const SimulatedSteps steps = simulate_steps(job, {});
  EXPECT_CLOSE(steps.steps_per_s, 4 / (3 + 1 + 2 + 3 + 0.5));
  EXPECT_CLOSE(steps.examples_per_s, 8 * steps.steps_per_s);

  job.classes[0].count = 6;  // two hosts, of four and of two
  EXPECT_CLOSE(seconds_per_step(job, LinkSharing::equal_shares), 2 * 6 + 1 + 2 + 0.5);
  job.mode = Coordination::allreduce;
  EXPECT_CLOSE(seconds_per_step(job, LinkSharing::equal_shares), 1 + 2 + 2 * 3 / 2.0 + 0.5);
}

TEST(SimulateSteps, LimitsTheFlowsOfAHost) {
  TrainingJob job = small_job(1, Coordination::synchronous);
  job.flow_cap = 1;  // half of the bandwidth
  EXPECT_CLOSE(seconds_per_step(job, LinkSharing::equal_shares), 6 + 1 + 2 + 6 + 0.5);
  job.classes[0].count = 2;  // which do not disturb each other
  for (const LinkSharing sharing : kBoth) EXPECT_CLOSE(seconds_per_step(job, sharing), 6 + 1 + 2 + 6 + 0.5);
  job.mode = Coordination::allreduce;  // each sends and receives one flow
  EXPECT_CLOSE(seconds_per_step(job, LinkSharing::equal_shares), 1 + 2 + 6 + 0.5);
}

TEST(SimulateSteps, SpreadsHostsOverNetworkCards) {
  TrainingJob job = small_job(4, Coordination::synchronous);
  job.nics = 2;
  EXPECT_CLOSE(seconds_per_step(job, LinkSharing::equal_shares), 2 * 2 * 3 + 1 + 2 + 0.5);
  job.mode = Coordination::allreduce;
  EXPECT_CLOSE(seconds_per_step(job, LinkSharing::equal_shares), 1 + 2 + 2 * 3 * 3 / 4.0 / 2 + 0.5);
}

TEST(SimulateSteps, SpreadsLayersOverServers) {
  for (const LinkSharing sharing : kBoth) {
    // A worker's own link is not faster for it; two do not meet; of four, two are at each server at any time.
    for (const int workers : {1, 2}) {
      TrainingJob job = small_job(workers, Coordination::synchronous, 2);
      job.overlap = false;
      job.servers = 2;
      EXPECT_CLOSE(seconds_per_step(job, sharing), 3 + 1 + 2 + 3 + 0.5);
    }
  }
  TrainingJob job = small_job(4, Coordination::synchronous);
  job.servers = 2;
  EXPECT_CLOSE(seconds_per_step(job, LinkSharing::equal_shares), 2 * 2 * 3 + 1 + 2 + 0.5 / 2);
}

TEST(SimulateSteps, AddsTheLatencyOfMessages) {
  TrainingJob job = small_job(1, Coordination::synchronous, 3);
  job.overlap = false;
  // The first layer's computation waits for the last download; the last update for the last upload.
  EXPECT_CLOSE(seconds_per_step(job, LinkSharing::equal_shares, {.message_latency = 0.25}), 9.5 + 2 * 0.25);
  job = small_job(4, Coordination::allreduce, 3);
  job.overlap = false;
  EXPECT_CLOSE(seconds_per_step(job, LinkSharing::equal_shares, {.message_latency = 0.25}),
               1 + 2 + 2 * 3 * 3 / 4.0 + 0.5 + 3 * 6 * 0.25);
}

TEST(SimulateSteps, SharesTheServersProcessorWhenAsked) {
  TrainingJob job = small_job(4, Coordination::synchronous);
  EXPECT_CLOSE(seconds_per_step(job, LinkSharing::equal_shares, {.server_shared = true}), 2 * 4 * 3 + 1 + 2 + 4 * 0.5);
}

TEST(SimulateSteps, OfAnAllreduceWaitsForTheLastAtEachLayer) {
  TrainingJob job = small_job(1, Coordination::allreduce);
  // Backward passes of 1 + 9 and 5 + 1 seconds; each allreduce takes 2·(1/2)·4/2 = 2 s, the first from 5 s on.
  ProfiledStep early = chain(2, 8, 0, 0, 0);
  ProfiledStep late = early;
  early[1].backward = 1;
  early[0].backward = 9;
  late[1].backward = 5;
  late[0].backward = 1;
  job.classes = {{.count = 1, .steps = {early}}, {.count = 1, .steps = {late}}};
  std::vector<double> began;
  simulate_steps(job, {.on_operation = [&](const SimulatedOperation& operation) {
                   if (operation.kind == OperationKind::upload && operation.step == 0) began.push_back(operation.begin);
                 }});
  EXPECT_EQ(began, (std::vector<double>{5, 5, 10, 10}));
  EXPECT_CLOSE(seconds_per_step(job, LinkSharing::equal_shares), 12.0);
}

TEST(SimulateSteps, ShowsOperationsOfAGpuThatFollowEachOther) {
  Random random(5);
  for (int drawn = 0; drawn < 20; ++drawn) {
    TrainingJob job = drawn_job(random);
    job.gpus_per_host = 2;
    for (WorkerClass& workers : job.classes) workers.count = 3;
    std::map<std::pair<int, int>, double> busy_until;
    simulate_steps(job, {.on_operation = [&](const SimulatedOperation& operation) {
                     EXPECT_LE(operation.begin, operation.end);
                     if (operation.kind != OperationKind::forward && operation.kind != OperationKind::backward) return;
                     double& until = busy_until[{operation.host, operation.gpu}];
                     EXPECT_GE(operation.begin, until);
                     until = operation.end;
                   }});
    EXPECT_FALSE(busy_until.empty());
  }
}

TEST(SimulateSteps, RefusesMoreThanFitsIntoMemory) {
  TrainingJob job = small_job(1, Coordination::synchronous);
  job.servers = job.nics = 50'000;
  EXPECT_THROW(simulate_steps(job, {}), UsageError);
  job.nics = 1;
  job.overlap = false;  // each update waits for the uploads to all servers
  EXPECT_THROW(simulate_steps(job, {}), UsageError);
  job = small_job(10'000'000, Coordination::asynchronous);
  EXPECT_THROW(simulate_steps(job, {}), UsageError);
  job = small_job(1'000'000, Coordination::asynchronous, 100);
  EXPECT_THROW(simulate_steps(job, {}), UsageError);
  job = small_job(1, Coordination::allreduce);  // which has no servers
  job.servers = job.nics = 1'000'000'000;
  EXPECT_CLOSE(seconds_per_step(job, LinkSharing::equal_shares), 1 + 2 + 0.5);
}

TEST(SimulateSteps, RefusesWhatItCannotSimulate) {
  TrainingJob job = small_job(1, Coordination::asynchronous);
  job.classes[0].steps = {chain(1, 0, 0, 0, 0)};
  EXPECT_THROW(simulate_steps(job, {}), UsageError);
  job.classes[0].steps.clear();
  EXPECT_THROW(simulate_steps(job, {}), UsageError);
  job = small_job(1, Coordination::allreduce);
  job.classes.push_back({.count = 1, .steps = {chain(2, 6, 1, 1, 0)}});
  EXPECT_THROW(simulate_steps(job, {}), UsageError);
}

/// m = 1 s, F = B = 1 s, no server time; three workers.
TrainingJob three_workers(Coordination mode) {
  TrainingJob job;
  job.bandwidth = 1;
  job.mode = mode;
  job.steps = 20;
  job.classes = {{.count = 3, .batch = 4, .steps = {{{.name = "layer", .bytes = 1, .forward = 1, .backward = 1}}}}};
  return job;
}

TEST(PredictFine, OfASynchronousJobIsTheMeanOfTheThroughputs) {
  TrainingJob job = three_workers(Coordination::synchronous);
  const FinePrediction both = predict_fine(job, {});
  const double equal = 3 / (2 * 3 + 2.0);       // equation 7
  const double in_order = 3 / ((3 + 1) + 2.0);  // equation 8
  EXPECT_NEAR(both.steps_per_s, (equal + in_order) / 2, 1e-12);
  EXPECT_NEAR(both.examples_per_s, 4 * both.steps_per_s, 1e-12);

  job.link = LinkSharing::in_order;
  const FinePrediction one = predict_fine(job, {});
  EXPECT_NEAR(one.steps_per_s, in_order, 1e-12);
  EXPECT_FALSE(one.equal_shares);
  EXPECT_EQ(one.shown().steps_per_s, one.steps_per_s);
}

TEST(PredictFine, OfOtherJobsIsOneSimulationWithEqualShares) {
  for (const Coordination mode : {Coordination::asynchronous, Coordination::allreduce}) {
    const FinePrediction prediction = predict_fine(three_workers(mode), {});
    EXPECT_TRUE(prediction.equal_shares);
    EXPECT_FALSE(prediction.in_order);
  }
}

/// Up to three classes of up to three workers, whose longest times are at most three times their shortest.
TrainingJob drawn_even_job(Random& random) {
  const auto some = [&] { return 0.5 + random.uniform(); };
  TrainingJob job{.bandwidth = some()};
  job.overlap = false;
  job.steps = 400;
  const double bytes = some();
  for (auto classes = random.between(1, 3); classes > 0; --classes) {
    const Layer layer{.name = "layer", .bytes = bytes, .forward = some(), .backward = some(), .update = some()};
    job.classes.push_back({.count = static_cast<int>(random.between(1, 3)),
                           .batch = 1,
                           .forward = layer.forward,
                           .backward = layer.backward,
                           .update = layer.update,
                           .steps = {{layer}}});
  }
  job.model_bytes = bytes;
  return job;
}

/// Each worker goes through all of its step, and each step through the link.
double most_steps_per_s(const TrainingJob& job) {
  const double transfer = job.model_bytes / job.bandwidth;
  double most = 0;
  for (const WorkerClass& workers : job.classes) {
    most += workers.count / (2 * transfer + workers.forward + workers.backward + workers.update);
  }
  return std::min(most, 1 / transfer);
}

TEST(Predictions, ExceedNeitherTheirWorkersNorTheirLink) {
  Random random(1, 1);
  for (int draw = 0; draw < 100; ++draw) {
    TrainingJob job = drawn_even_job(random);
    const double most = most_steps_per_s(job);
    const AsynchronousRate coarse = predict_coarse(job).basic;
    EXPECT_LE(coarse.equal_shares, most * (1 + 1e-12)) << draw;
    EXPECT_LE(coarse.in_order, most * (1 + 1e-12)) << draw;
    for (const LinkSharing sharing : {LinkSharing::equal_shares, LinkSharing::in_order}) {
      job.link = sharing;
      // Of each worker the steps count that lie wholly in the time measured: two of its 120 and more may be cut.
      EXPECT_LE(predict_fine(job, {}).steps_per_s, most * (1 + 2.0 / 120)) << draw;
    }
  }
}

TEST(Predictions, OfOneWorkerWithoutOverlapAreTheSame) {
  Random random(2, 1);
  for (int draw = 0; draw < 50; ++draw) {
    TrainingJob job = drawn_even_job(random);
    job.classes.resize(1);
    job.classes.front().count = 1;
    const CoarsePrediction coarse = predict_coarse(job);
    const double rate = most_steps_per_s(job);  // one step after the other
    EXPECT_NEAR(coarse.basic.equal_shares / rate, 1, 1e-9) << draw;
    EXPECT_NEAR(coarse.basic.in_order / rate, 1, 1e-9) << draw;
    for (const LinkSharing sharing : {LinkSharing::equal_shares, LinkSharing::in_order}) {
      job.link = sharing;
      job.mode = Coordination::asynchronous;
      EXPECT_NEAR(predict_fine(job, {}).steps_per_s / rate, 1, 1e-9) << draw;
      job.mode = Coordination::synchronous;
      EXPECT_NEAR(predict_fine(job, {}).steps_per_s * coarse.synchronous.mean, 1, 1e-9) << draw;
    }
    job.mode = Coordination::allreduce;
    EXPECT_NEAR(predict_fine(job, {}).steps_per_s * (coarse.synchronous.ring + job.classes.front().update), 1, 1e-9);
  }
}

}  // namespace

}  // namespace stretto
