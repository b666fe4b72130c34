#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "command/reproduce/experiments.h"
#include "stretto/base/error.h"
#include "stretto/base/random.h"
#include "stretto/collective/grid_allreduce.h"
#include "stretto/membership/rank_over_transport.h"
#include "stretto/simulate/virtual_ranks.h"
#include "stretto/train/recipes/grid_model.h"

namespace stretto::command {

namespace {

constexpr int kColumns = 4;  // and rows
constexpr Duration kMeanStep = std::chrono::milliseconds(100);
constexpr double kStepDeviation = 0.42;  // over the mean
constexpr int kMeanSteps = 600;
constexpr int kMessagesOfRound = 4;  // one after the other: START, slices, means, COMPLETE
constexpr double kTolerance = 0.02;

struct Survival {
  ElasticUpdate update;
  double alpha;
  double reckoned;
};
constexpr Survival kSurvivals[] = {
    {ElasticUpdate::paper, 0.3, 0.60},
    {ElasticUpdate::paper, 0.5, 0.41},
    {ElasticUpdate::paper, 0.9, 0.18},
    {ElasticUpdate::carry, 0.5, 1},
};

}  // namespace

double surviving_share(ElasticUpdate update, double alpha, std::uint64_t seed) {
  constexpr int kNodes = kColumns * kColumns;
  const std::vector<BucketSpec> buckets{{DataType::float64, kColumns}};
  const GridAllreduceOptions options{.grid = {}, .line = {.update = update}};
  double in_models = 0;
  std::uint64_t steps = 0;
  int over = 0;
  SimulatedCluster cluster(kNodes, {.latency = kMeanStep / kMessagesOfRound}, seed);
  VirtualRanks(cluster).run([&](VirtualRank& place) {
    RankOverTransport rank(place.transport(), place.clock(), &place);
    place.drive_engine(&rank.world().engine());
    GridAllreduce grid(rank.world().engine(), buckets, options);
    Random random(seed, static_cast<std::uint64_t>(place.rank()));
    std::vector<double> model(kColumns);
    const auto bytes = std::as_writable_bytes(std::span(model));
    const TimePoint end = place.deadline(kMeanSteps * kMeanStep);
    while (place.clock().now() < end) {
      const double mean = seconds(kMeanStep);
      place.compute(from_seconds(random.log_normal(mean, kStepDeviation * mean)));
      for (double& number : model) number += 1;
      ++steps;
      (void)grid.take([&](const GridSlice& slice) {
        move_towards_mean(DataType::float64, bytes.subspan(slice.offset * sizeof(double), slice.count * sizeof(double)),
                          slice, 0, update, alpha);
      });
      Contribution& copy = grid.acquire();
      std::ranges::copy(model, copy.as<double>(0).begin());
      grid.publish(&copy, 1);
    }
    in_models += std::accumulate(model.begin(), model.end(), 0.0) / kColumns;
    STRETTO_CHECK(grid.stop(place, TimePoint::never()), "the rounds of a line end");
    ++over;
    // What others still send this node is taken.
    place.wait([&over] { return over == kNodes; }, TimePoint::never());
    place.drive_engine(nullptr);
  });
  return in_models / static_cast<double>(steps);
}

Judgement judge_surviving_steps(std::span<const Experiment> finished) {
  STRETTO_CHECK(!finished.empty(), "no experiment");
  const std::uint64_t seed = finished.front().groups.front().options.seed;
  Judgement judgement;
  for (const auto& [update, alpha, reckoned] : kSurvivals) {
    const double share = surviving_share(update, alpha, seed);
    const bool holds = std::abs(share - reckoned) <= kTolerance;
    judgement.statements.push_back(
        {fmt::format("{}, alpha {}: {:.2f} of own steps survive, to {}",
                     update == ElasticUpdate::paper ? "paper" : "carry", alpha, reckoned, kTolerance),
         "–", fmt::format("{:.3f}", share), holds});
    judgement.holds = judgement.holds && holds;
  }
  judgement.text = fmt::format(
      "\nSteps alone: {} × {} nodes, steps of log-normal length with a deviation of {}, as long as a round of a "
      "line\n{}",
      kColumns, kColumns, kStepDeviation, statements_table(judgement.statements));
  return judgement;
}

}  // namespace stretto::command
