#pragma once

#include <exception>
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

/// SIGINT or SIGTERM has ended what was running.
class Interrupted : public std::exception {
 public:
  const char* what() const noexcept override { return "interrupted"; }
};

ExitCode exit_code_of(const Error& error);

/// Runs `body` and returns what it returns; what it throws becomes one line on standard error, "NAME: …", and the
/// exit code that fits: kBadInput for UsageError, that of the Error for Failure, kInterrupted, else kFailedRun.
int guarded(const std::string& name, const std::function<int()>& body);

}  // namespace stretto::command
