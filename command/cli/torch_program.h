#pragma once

#include <string>
#include <vector>

namespace stretto::command {

/// Replaces this program by the one that trains, `stretto-train COMMAND ARGUMENTS`. Returns only when that is not
/// possible: throws Failure (Errc::unavailable) that says why.
[[noreturn]] void become_training_program(const std::vector<std::string>& arguments);

}  // namespace stretto::command
