#pragma once

#include <string>

namespace stretto {

/// Why a process or thread could not be made: the meaning of `error` (an errno) and, where a limit may be behind it
/// (EAGAIN), the limits there are and their values.
std::string why_no_process(int error);

}  // namespace stretto
