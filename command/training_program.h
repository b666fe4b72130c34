#pragma once

#include "command/cli/subcommand.h"

namespace stretto::command {

/// The program that trains, by the texts of `texts`: `train`, `compare`, `reproduce`. Its user types `texts.name`.
Subcommand training_program(Subcommand texts);

}  // namespace stretto::command
