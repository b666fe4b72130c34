#pragma once

#include <string>

#include "stretto/base/error.h"
#include "stretto/train/job/rank_report.h"
#include "stretto/train/job/summary.h"
#include "stretto/train/options/train_options.h"

namespace stretto {

/// One JSON object, as it stands in the run folder's config.json; without `out` and `resume`, which say nothing of the
/// run itself.
std::string to_json(const TrainOptions& options);
/// The options in a config.json, also of an older version, which lacks some; without AlgorithmOptions and model layers.
/// Throws nlohmann::json::exception or UsageError for another text.
TrainOptions options_from_json(const std::string& text);
/// One JSON object, as it stands in the run folder's summary.json.
std::string to_json(const RunSummary& summary);
/// The summary in a summary.json; it has no ledger. Errc::bad_input says what is missing there, or is something else.
Result<RunSummary> summary_from_json(const std::string& text);
/// One JSON object, in a line, for the process that puts the reports of all ranks together.
std::string to_json(const RankReport& report);
/// Errc::bad_input for text that to_json() has not written whole (a rank that died while writing).
Result<RankReport> rank_report_from_json(const std::string& text);

}  // namespace stretto
