#pragma once

#include <functional>
#include <span>
#include <string>

#include "stretto/base/error.h"

namespace stretto::command {

/// The program's exit codes.
enum ExitCode : int {
  kSuccess = 0,
  kFailedRun = 1,
  kBadInput = 2,  ///< an option, a file, a folder or a machine that does not fit
  kLostRank = 3,  ///< a rank died
  kInterrupted = 130,
};

struct ExitMeaning {
  ExitCode code;
  const char* meaning;
};
/// All of them, for --help.
std::span<const ExitMeaning> exit_meanings();

ExitCode exit_code_of(const Error& error);

/// Runs `body` and returns its result. An exception becomes one line on standard error, "NAME: …", and the exit code
/// that fits: kBadInput for UsageError and too little memory, that of the Error for Failure, kInterrupted for
/// Interrupted, else kFailedRun.
/// A signal that ends the process meanwhile does so with such a line, and kInterrupted (end_on_signals()).
/// Of a UsageError under mpirun rank 0 alone speaks. A success whose output could not be written is kBadInput; that
/// standard error cannot be written changes nothing.
int guarded(const std::string& name, const std::function<int()>& body);

}  // namespace stretto::command
