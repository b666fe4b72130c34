#pragma once

#include "command/reproduce/reproductions.h"

namespace stretto::command {

/// Of stretto-train: trains, and prints the results beside those expected. Returns an exit code.
int run_reproduction(const Reproduction& reproduction, const ReproduceCommand& command);

}  // namespace stretto::command
