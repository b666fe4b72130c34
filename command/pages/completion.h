#pragma once

#include <string>

#include "command/cli/subcommand.h"

namespace stretto::command {

/// A script that completes commands, options, their values where --help knows them, files and folders. `shell` is one
/// of completion_shells().
std::string completion_script(const Subcommand& program, const std::string& shell);

/// "bash", "zsh".
std::vector<std::string> completion_shells();

/// `stretto completion SHELL`, which prints it. `program` must outlive the command.
Subcommand completion_command(const Subcommand& program);

}  // namespace stretto::command
