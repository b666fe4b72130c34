#include "command/exit_code.h"

#include <fmt/format.h>

#include <cstdio>

#include "stretto/membership/job.h"
#include "stretto/train/run.h"

namespace stretto::command {

ExitCode exit_code_of(const Error& error) {
  switch (error.code) {
    case Errc::lost_peer: return kLostRank;
    case Errc::bad_input:
    case Errc::unavailable:
    case Errc::io: return kBadInput;
    case Errc::timeout:
    case Errc::aborted: return kFailedRun;
  }
  return kFailedRun;
}

int guarded(const std::string& name, const std::function<int()>& body) {
  const auto complain = [&name](const char* what) { fmt::print(stderr, "{}: {}\n", name, what); };
  try {
    return body();
  } catch (const UsageError& error) {
    // All ranks of a job have the same arguments: one of them speaks.
    const auto launched = launched_rank();
    if (!launched || launched->rank == 0) complain(error.what());
    return kBadInput;
  } catch (const Failure& failure) {
    complain(failure.what());
    return exit_code_of(failure.error());
  } catch (const Interrupted& interrupted) {
    complain(interrupted.what());
    return kInterrupted;
  } catch (const std::exception& error) {
    complain(error.what());
    return kFailedRun;
  }
}

}  // namespace stretto::command
