#pragma once

#include <string>
#include <string_view>

#include "command/cli/subcommand.h"

namespace stretto::command {

/// `text` as one line of roff: it is printed as it stands, to the last dash and quote, and is never taken for a
/// request. What is not ASCII becomes \[uXXXX], which every roff knows. Requires: UTF-8.
std::string roff_text(std::string_view text);

/// The same in bold, as a line of its own.
std::string roff_bold(std::string_view text);

/// The manual page of the whole program, in roff with the macros of man(7): what --help of every command says.
std::string man_page(const Subcommand& program);

/// `stretto man`, which prints it. `program` must outlive the command.
Subcommand man_command(const Subcommand& program);

/// A script that completes commands, options, their values where --help knows them, files and folders. `shell` is one
/// of completion_shells().
std::string completion_script(const Subcommand& program, const std::string& shell);

/// "bash", "zsh".
std::vector<std::string> completion_shells();

/// `stretto completion SHELL`, which prints it. `program` must outlive the command.
Subcommand completion_command(const Subcommand& program);

}  // namespace stretto::command
