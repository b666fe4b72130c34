#pragma once

#include <string>

namespace stretto::command {

/// `stretto profile FILE` of a job that has been measured: what read_step_times() finds in `file` as CSV rows
/// step,rank,seconds, in the file `out` or, where that is empty, on standard output; and a table of the ranks, who was
/// how late, on the other of standard output and standard error. Returns an exit code. Throws Failure for a file that
/// does not fit.
int run_measured_profile(const std::string& file, const std::string& out);

}  // namespace stretto::command
