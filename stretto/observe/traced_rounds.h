#pragma once

#include <string>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/function_ref.h"
#include "stretto/observe/trace.h"

namespace stretto {

/// A round as a rank was handed it.
struct HandedRound {
  int rank = 0;
  Duration when{0};  ///< since the start of the run
  TraceWriter::Round round;
};

/// Hands over the rounds that TraceWriters have written, in the file's order: of all ranks in one that merge_traces()
/// has made, of one rank in a part of it. Lines that are not whole are left out. Errc::bad_input names the file and the
/// line of a round that lacks something; Errc::io if it cannot be read.
Result<LinesFound> read_traced_rounds(const std::string& path, FunctionRef<void(const HandedRound&)> take);

}  // namespace stretto
