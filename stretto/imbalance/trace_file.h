#pragma once

#include <memory>
#include <string>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"

namespace stretto {

/// Reads delays from a CSV file of rows step,rank,seconds (any order; a first row without any digit names the columns;
/// a byte order mark, empty lines, and lines from '#' on are skipped). Entry step × ranks + rank is that delay; 0 where
/// no row has it. Errc::bad_input names the file, the line and its fault; Errc::io if it cannot be read, or is no file
/// at all but a device, whose end never comes.
Result<std::vector<Duration>> read_trace_file(const std::string& path, int ranks);

}  // namespace stretto
