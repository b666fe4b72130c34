#pragma once

#include <vector>

namespace stretto::command {

/// The cores that this process may run on, at least one.
std::vector<int> usable_cores();

/// From now on the calling thread runs on this core alone. Throws Failure (Errc::io).
void pin_to(int core);

}  // namespace stretto::command
