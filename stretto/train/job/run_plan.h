#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "stretto/dispenser/batch_plan.h"
#include "stretto/dispenser/dispenser.h"
#include "stretto/imbalance/spec.h"
#include "stretto/simulate/cluster.h"
#include "stretto/train/job/task.h"
#include "stretto/train/options/train_options.h"
#include "stretto/train/recipes/options/lr_schedule.h"
#include "stretto/train/recipes/recipes.h"
#include "stretto/train/simulated/churn.h"

namespace stretto {

/// A run with everything decided and nothing started. The same on every rank.
struct RunPlan {
  TrainOptions options;  ///< with the defaults of the task and of the algorithm where nothing was said
  Algorithm algorithm;
  RecipeOptions recipe;
  std::function<Policy(int ranks)> policy_of;  ///< where members change, among so many of them
  Sharing sharing = Sharing::partitioned;
  PlanOptions batches;
  std::uint64_t total_batches = 0;
  Imbalance imbalance;  ///< scaled
  Duration pace{0};     ///< scaled
  LrSchedule lr;
  NetworkOptions network;  ///< of a simulated run
  Churn churn;             ///< the same, where members change
};

/// Throws UsageError, which names the value, the values expected, and one that would work.
RunPlan plan_run(const TrainOptions& options, const TaskFacts& facts);

/// The time of a step by its drawn delay and factor and by the pace; without a pace the computation itself takes
/// `seconds_per_unit` for each unit of work.
Duration drawn_step_time(const RunPlan& plan, int rank, std::uint64_t step, std::uint64_t units,
                         double seconds_per_unit);

}  // namespace stretto
