#pragma once

#include <span>

#include "stretto/train/checkpoint.h"
#include "stretto/train/rank_report.h"
#include "stretto/train/run_plan.h"
#include "stretto/train/summary.h"

namespace stretto {

/// What the reports of all ranks of a run say together, beside what was possible with the step times that were drawn.
/// `resume`: where the run began; null: at the start. Requires: reports by rank, none with an error.
RunSummary summarize(const RunPlan& plan, std::span<const RankReport> reports, const Checkpoint* resume);

}  // namespace stretto
