#pragma once

#include <string>
#include <string_view>

#include "stretto/base/error.h"
#include "stretto/predict/model/training_job.h"

namespace stretto {

/// Reads a job from JSON; docs/prediction.md has the schema. Totals that are not said are those of the layers.
/// Errc::bad_input names `source` (a file), the value, and what was expected instead of it.
Result<TrainingJob> read_job(std::string_view json, const std::string& source);

}  // namespace stretto
