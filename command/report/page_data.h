#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>

#include "command/predict/recommendation.h"
#include "command/report/recorded_run.h"

namespace stretto::command {

/// Predictions for other algorithms with the step times of a run.
struct ReportAdvice {
  std::string run;       ///< whose
  std::string messages;  ///< how long they take, in words
  Recommendation recommendation;
};

/// How many steps of all runs together a page carries one by one. Of longer runs some that follow one another are drawn
/// as one: their phases are added up.
inline constexpr std::size_t kMostSteps = 1 << 20;

/// All that the page draws, as command/report/page reads it: numbers that are few as JSON, long columns as base64 of
/// little-endian numbers. `advice`: none, or why there is none in `no_advice`.
nlohmann::ordered_json page_data(std::span<const RecordedRun> runs, const std::optional<ReportAdvice>& advice,
                                 const std::string& no_advice, std::size_t most_steps = kMostSteps);

}  // namespace stretto::command
