#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/function_ref.h"

namespace stretto {

/// A row of a CSV file of times.
struct TraceRow {
  std::uint64_t step = 0;
  int rank = 0;           ///< 0 or more
  double seconds = 0;     ///< 0 … kLongestDuration
  std::uint64_t end = 0;  ///< bytes of the file that have been read
};

/// Takes a row, and says what is wrong with it; an empty text where nothing is.
using TakeTraceRow = FunctionRef<std::string(const TraceRow&)>;

/// Hands over the rows step,rank,seconds of a CSV file, in the file's order, a line in memory at a time. A first row
/// without any digit is a header, which says where these three are, in any order and beside other columns. Empty
/// lines, and what comes behind '#', are skipped. Errc::bad_input names the file, the line and its fault; errors of
/// open_file() besides.
Result<void> read_trace_rows(const std::string& path, TakeTraceRow take);

/// Reads delays from a CSV file of rows step,rank,seconds (any order; a first row without any digit names the columns;
/// a byte order mark, empty lines, and lines from '#' on are skipped). Entry step × ranks + rank is that delay; 0 where
/// no row has it. Errc::bad_input names the file, the line and its fault; Errc::io if it cannot be read, or is no file
/// at all but a device, whose end never comes.
Result<std::vector<Duration>> read_trace_file(const std::string& path, int ranks);

}  // namespace stretto
