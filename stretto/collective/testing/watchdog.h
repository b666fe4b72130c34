#pragma once

#include "stretto/base/clock.h"

namespace stretto {

/// For tests: a call that takes so long hangs.
inline constexpr Duration kWatchdog = std::chrono::seconds(60);

}  // namespace stretto
