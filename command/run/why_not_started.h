#pragma once

#include <string>

namespace stretto::command {

/// Why execvp() has failed on a program, with this errno, as a sentence.
std::string why_not_started(const std::string& program, int error);

}  // namespace stretto::command
