#pragma once

#include <string>

#include "command/run/program_ranks.h"

namespace stretto::command {

/// As run_program_ranks(), on ProgramRanks::hosts: starts a launcher on each by the remote shell (calling_launcher.h),
/// and passes on what they say. With members that change the master is in this process, and the processes on the hosts
/// come to it. Leaves nothing behind: the launchers end their ranks where this process is gone, or silent for the
/// liveness of the job.
EndOfPrograms run_on_hosts(const ProgramRanks& job, const std::string& name);

/// Throws UsageError where the options do not fit the hosts, or there is no such remote shell. Takes from the hosts
/// what other options have left open.
void check_hosts(ProgramRanks& job);

}  // namespace stretto::command
