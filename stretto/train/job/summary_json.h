#pragma once

#include <string>

#include "stretto/train/job/summary.h"
#include "stretto/train/options.h"

namespace stretto {

/// One JSON object, as it stands in the run folder's config.json; without `out` and `resume`, which say nothing of the
/// run itself.
std::string to_json(const TrainOptions& options);
/// One JSON object, as it stands in the run folder's summary.json.
std::string to_json(const RunSummary& summary);

}  // namespace stretto
