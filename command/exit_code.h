#pragma once

#include <functional>
#include <string>

#include "stretto/base/error.h"

namespace stretto::command {

/// What the program returns.
enum ExitCode : int {
  kSuccess = 0,
  kFailedRun = 1,
  kBadInput = 2,  ///< an option, a file, a folder or a machine that cannot do what was asked
  kLostRank = 3,  ///< a rank died
  kInterrupted = 130,
};

ExitCode exit_code_of(const Error& error);

/// Runs `body` and returns what it returns; what it throws becomes one line on standard error, "NAME: …", and the
/// exit code that fits: kBadInput for UsageError, that of the Error for Failure, kInterrupted for Interrupted, else
/// kFailedRun. Of a UsageError under mpirun rank 0 alone speaks.
int guarded(const std::string& name, const std::function<int()>& body);

}  // namespace stretto::command
