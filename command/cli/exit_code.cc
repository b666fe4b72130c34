#include "command/cli/exit_code.h"

#include <fmt/format.h>

#include <cstdio>
#include <new>

#include "command/cli/interruption.h"
#include "command/cli/print.h"
#include "stretto/base/words/json_fault.h"
#include "stretto/membership/job.h"
#include "stretto/train/job/run.h"

namespace stretto::command {

std::span<const ExitMeaning> exit_meanings() {
  static constexpr ExitMeaning kMeanings[] = {
      {kSuccess, "Done."},
      {kFailedRun,
       "The run failed: a gradient that is not finite, a rank that stopped the job, a broken promise, a violation "
       "found."},
      {kBadInput,
       "Bad input: one line names the value, what was expected and what would work. Also too little memory, processes "
       "or descriptors, a folder or a result that cannot be written, a checkpoint that does not fit, a build without "
       "LibTorch."},
      {kLostRank, "A rank was lost; it is named."},
      {kInterrupted, "Interrupted by Ctrl-C, SIGTERM, SIGHUP or SIGQUIT."},
  };
  return kMeanings;
}

ExitCode exit_code_of(const Error& error) {
  switch (error.code) {
    case Errc::lost_peer: return kLostRank;
    case Errc::bad_input:
    case Errc::unavailable:
    case Errc::io: return kBadInput;
    case Errc::timeout:
    case Errc::diverged:
    case Errc::aborted: return kFailedRun;
  }
  return kFailedRun;
}

namespace {

// Whether this process says what is wrong with the arguments: all ranks of a job have the same ones, and rank 0 speaks
// for all. Where the variables of a launcher are wrong themselves, no rank is known, and each process says so.
bool speaks() {
  try {
    const auto launched = launched_rank();
    return !launched || launched->rank == 0;
  } catch (const UsageError&) {
    return true;
  }
}

// Runs `body`; what it throws becomes a line and an exit code.
int code_of(const std::function<int()>& body, const std::function<void(const char*)>& complain) {
  try {
    return body();
  } catch (const UsageError& error) {
    if (speaks()) complain(error.what());
    return kBadInput;
  } catch (const Failure& failure) {
    complain(failure.what());
    return exit_code_of(failure.error());
  } catch (const Interrupted& interrupted) {
    complain(interrupted.what());
    return kInterrupted;
  } catch (const std::bad_alloc&) {
    complain("too little memory: expected more of it, or less to compute at once");
    return kBadInput;
  } catch (const std::exception& error) {
    complain(json_fault(error).c_str());
    return kFailedRun;
  }
}

}  // namespace

int guarded(const std::string& name, const std::function<int()>& body) {
  const auto complain = [&name](const char* what) {
    print_to(stderr, one_line(fmt::format("{}: {}", name, what)) + "\n");
  };
  end_on_signals(name);
  const int code = code_of(body, complain);
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (written) return code;
  complain("standard output cannot be written: a part of the result is missing there");
  std::clearerr(stdout);  // said: a command that has handed over to this one says it no more
  return code == kSuccess ? kBadInput : code;
}

}  // namespace stretto::command
