#pragma once

#include <span>
#include <string>
#include <vector>

#include "stretto/collective/grid_allreduce.h"
#include "stretto/observe/ledger.h"
#include "stretto/train/job/checkpoint.h"
#include "stretto/train/job/rank_report.h"
#include "stretto/train/job/run_plan.h"
#include "stretto/train/job/summary.h"

namespace stretto {

/// Puts the reports of all ranks of a run together, beside the throughput that was possible with the step times drawn.
/// `resume`: where the run began; null: at the start. Requires: reports by rank, none with an error.
RunSummary summarize(const RunPlan& plan, std::span<const RankReport> reports, const Checkpoint* resume);

/// The totals of a ledger that is complete, after so many rounds, without members. `hosts`: of each rank, by its name.
RoundTotals totals_of(const Ledger& ledger, Round rounds, std::vector<std::string> hosts);

/// The counts of a rank in its lines of a grid, by dimension. Null: it has none.
std::vector<GridCounts> line_counts(const GridAllreduce* grid);

}  // namespace stretto
