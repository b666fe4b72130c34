#pragma once

#include <string>

#include "stretto/base/error.h"
#include "stretto/base/function_ref.h"
#include "stretto/observe/run_folder.h"

namespace stretto {

/// Takes a record, and says what is wrong with it; an empty text where nothing is.
using TakeStepRecord = FunctionRef<std::string(const StepRecord&)>;

/// Hands over the records that a RecordWriter has written, in the file's order, a line in memory at a time. A last line
/// that is not whole is left out. Errc::bad_input names the file, the line and its fault; Errc::io if it cannot be
/// read.
Result<LinesFound> read_step_records(const std::string& path, TakeStepRecord take);

}  // namespace stretto
