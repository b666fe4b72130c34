#pragma once

#include <string>

#include "command/cli/subcommand.h"

namespace stretto::command {

/// The manual page of the whole program, in roff with the macros of man(7): what --help of every command says.
std::string man_page(const Subcommand& program);

/// `stretto man`, which prints it. `program` must outlive the command.
Subcommand man_command(const Subcommand& program);

}  // namespace stretto::command
