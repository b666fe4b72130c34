#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/collective/lines/grid_counts.h"
#include "stretto/engine/traffic.h"
#include "stretto/train/job/step/rank_ordering.h"
#include "stretto/train/job/summary.h"
#include "stretto/train/job/task.h"
#include "stretto/train/replica/replica.h"

namespace stretto {

/// One rank's totals of the rounds of a run. All ranks know the same, unless rounds were skipped (delivery latest).
struct RoundTotals {
  std::uint64_t rounds = 0;
  std::uint64_t batches = 0;  ///< applied
  std::uint64_t dropped = 0;  ///< batches that servers have thrown away
  double passed_over = 0;     ///< batches that a replica has not applied, on average (delivery latest)
  double staleness_mean = 0;
  std::uint64_t staleness_max = 0;
  std::vector<std::uint64_t> staleness_histogram;
  std::uint64_t fresh = 0, stale = 0, null = 0;
  std::vector<double> lost_seconds;
  std::vector<std::string> hosts;  ///< Members::host_names()
  std::int64_t lost_deposits = 0;
  std::optional<double> kept_deposits;    ///< Ledger::kept()
  std::string ledger;                     ///< as a table for people
  std::optional<MembersFigures> members;  ///< where they change
};

/// Training losses, put together where about the same number of batches had been applied.
struct LossBin {
  double seconds = 0;         ///< of the first one
  std::uint64_t batches = 0;  ///< applied before it
  double sum = 0;
  std::uint64_t count = 0;
};

/// A rank's report of its part of a run: its results, or the error that ended it.
struct RankReport {
  int rank = 0;
  bool usage_error = false;  ///< the error is the caller's mistake
  std::optional<Error> error;

  double seconds = 0;                    ///< from its first step to its last applied round
  double waited = 0;                     ///< seconds inside exchange, and in passes for weights
  double computed = 0;                   ///< seconds, really
  double compute_share = 0;              ///< of the pace; 0 without one
  std::uint64_t units = 0;               ///< of work
  std::uint64_t made = 0;                ///< deposits, in batches
  Traffic sent;                          ///< from its first step to the end of the last round
  std::uint64_t lost_records = 0;        ///< lines that could not be written
  std::string why_lost;                  ///< and why the first of them; empty where there is none
  bool identical = true;                 ///< every comparison of replicas found them equal
  double step_p50 = 0, step_p99 = 0;     ///< seconds that a step takes
  std::optional<RankOrdering> ordering;  ///< where gradients are reduced in one order
  std::vector<GridCounts> lines;         ///< where models are averaged in a grid, by dimension
  std::optional<double> apart;           ///< there, from the average of all when they met: a mean, of its norm
  std::uint64_t times_met = 0;           ///< samples in it; stays with the rank
  std::vector<LossBin> losses;
  std::optional<RoundTotals> totals;         ///< on rank 0
  std::optional<TaskScore> test, training;   ///< on rank 0, of the model that counts at the end
  std::uint64_t final_batches = 0;           ///< on rank 0: applied to that model
  std::vector<EvaluationPoint> evaluations;  ///< on rank 0, of the run since it was last started

  /// A sample of `apart`.
  void add_apart(double share) {
    const double before = apart.value_or(0);
    apart = before + (share - before) / static_cast<double>(++times_met);
  }
};

}  // namespace stretto
