#pragma once

#include "command/cli/subcommand.h"

namespace stretto::command {

/// The program that trains, by the texts of `texts`: `train`, `compare`, `reproduce`, `profile`. Its user types
/// `texts.name`.
Subcommand training_program(Subcommand texts);
/// dispatch() of such a program. A pipe that nobody reads any more, as of `stretto train 2>&1 | head`, does not end a
/// run that has a folder to write to: what could not be printed is said at the end, and by the exit status.
int dispatch_training(const Subcommand& program, const Arguments& arguments);

}  // namespace stretto::command
