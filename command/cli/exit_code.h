#pragma once

#include <atomic>
#include <cstdint>
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

/// From now on SIGINT, SIGTERM, SIGHUP and SIGQUIT, but those that are ignored, end this process with one line on
/// standard error, "NAME: interrupted", and kInterrupted. A child that was forked ends by the signal. Where ranks are
/// started, their launcher hears these signals while they run.
void end_on_signals(const std::string& name);

/// While it lives, that line says how far the run is: "NAME: interrupted after 1200 rounds". One at a time; what it is
/// given must outlive it.
class ToldWhenInterrupted {
 public:
  ToldWhenInterrupted(const std::atomic<std::uint64_t>& done, const std::string& unit);
  ~ToldWhenInterrupted();
  ToldWhenInterrupted(const ToldWhenInterrupted&) = delete;
  ToldWhenInterrupted& operator=(const ToldWhenInterrupted&) = delete;
};

}  // namespace stretto::command
