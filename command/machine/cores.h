#pragma once

namespace stretto::command {

/// From now on the calling thread runs on this core alone. Throws Failure (Errc::io).
void pin_to(int core);

}  // namespace stretto::command
