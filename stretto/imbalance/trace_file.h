#pragma once

#include <memory>
#include <string>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"

namespace stretto {

/// Reads delays from a CSV file of rows step,rank,seconds (any order; a first line that begins with no number is a
/// header; empty lines and lines from '#' on are skipped). Entry step × ranks + rank; what is not listed is 0.
/// Errc::bad_input names file, line and what is wrong with it; Errc::io if it cannot be read.
Result<std::vector<Duration>> read_trace_file(const std::string& path, int ranks);

}  // namespace stretto
