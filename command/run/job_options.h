#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "command/cli/command_line.h"
#include "command/cli/values.h"
#include "command/run/program_ranks.h"

namespace stretto::command {

// Options that several commands have which start processes of a job, or speak to one.

inline constexpr std::string_view kAddressHelp =
    "HOST:PORT, as stretto run --listen has said it, or PORT on the same host; etcd://HOST:PORT/NAME, as --register "
    "has "
    "it.";

/// Throws UsageError.
Setter into_address(std::optional<JobAddress>& target);
void describe_secret(CommandLine& line, std::string& file);
void describe_restarts(CommandLine& line, ProgramRanks& job);
/// Describes the options of a command that starts a job whose members change, but --ranks, --liveness and --restarts.
void describe_members(CommandLine& line, ProgramRanks& job);
/// Whether one of these or --restarts was given.
bool has_member_options(const ProgramRanks& job);
/// Throws UsageError where they do not fit --ranks, or each other.
void check_member_options(const ProgramRanks& job);
/// --hosts and what belongs to it; check_hosts() looks at it.
void describe_hosts(CommandLine& line, ProgramRanks& job);
void describe_grace(CommandLine& line, ProgramRanks& job);
void describe_tag(CommandLine& line, ProgramRanks& job);

}  // namespace stretto::command
