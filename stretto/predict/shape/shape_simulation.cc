#include "stretto/predict/shape/shape_simulation.h"

#include <limits>

#include "stretto/predict/shape/rank_steps.h"

namespace stretto {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// Lets the ranks go through the exchanges of each kind.
struct Simulate {
  const AlgorithmShape& shape;
  RankSteps& steps;
  int ranks;
  const ShapeJob& job;

  Applied operator()(const RoundShape& rounds) const { return simulate_rounds(rounds, shape.every, steps, ranks, job); }
  Applied operator()(const GroupRoundShape& groups) const {
    return simulate_groups(groups, shape.every, steps, ranks, job);
  }
  Applied operator()(const PushShape& pushes) const { return pushes.simulate(steps, job); }
};

int num_trained(const AlgorithmShape& shape, int ranks) {
  const auto* pushes = std::get_if<PushShape>(&shape.exchange);
  return pushes != nullptr ? pushes->workers : ranks;
}

void check(const AlgorithmShape& shape, int ranks) {
  if (shape.every == 0) throw UsageError("a shape with an exchange every 0 steps: expected at least 1");
  if (std::holds_alternative<PushShape>(shape.exchange) && shape.every != 1) {
    throw UsageError("a shape of pushes with steps in between: expected an exchange every step");
  }
  if (const auto* groups = std::get_if<GroupRoundShape>(&shape.exchange)) {
    if (groups->full_every == 0) throw UsageError("a shape of groups without full rounds: expected one sometimes");
    if (groups->quorum > ranks) {
      throw UsageError(text("a quorum of ", groups->quorum, ": expected at most ", ranks, ", the number of ranks"));
    }
  }
}

/// Whether no event decides anything.
bool waits_for_all(const AlgorithmShape& shape, const ShapeJob& job) {
  const auto* rounds = std::get_if<RoundShape>(&shape.exchange);
  return rounds != nullptr && rounds->policy.kind == Policy::Kind::full && !job.shared_data;
}

}  // namespace

ShapeOutcome simulate_shape(const AlgorithmShape& shape, const StepTimes& times, const ShapeJob& job) {
  const int ranks = times.ranks();
  check(shape, ranks);
  Applied applied;
  double waited = 0;
  if (waits_for_all(shape, job)) {
    applied = simulate_full_rounds(times, shape.every, job, waited);
  } else {
    RankSteps steps(times, job, num_trained(shape, ranks));
    applied = std::visit(Simulate{shape, steps, ranks, job}, shape.exchange);
    waited = steps.waited();
  }
  const double batches = static_cast<double>(applied.batches), seconds = applied.last * 1e-9;
  const bool rounds = std::holds_alternative<RoundShape>(shape.exchange);
  const bool groups = std::holds_alternative<GroupRoundShape>(shape.exchange);
  return {.seconds = seconds,
          .rate = batches / seconds,
          .wait_share = waited / (ranks * applied.last),
          .fresh_share = rounds
                             ? static_cast<double>(applied.fresh) / static_cast<double>(applied.fresh + applied.stale)
                             : kUnknown,
          .staleness_mean = groups ? kUnknown : static_cast<double>(applied.staleness) / batches,
          .staleness_max = applied.staleness_max,
          .rounds = applied.rounds,
          .dropped = applied.dropped};
}

}  // namespace stretto
