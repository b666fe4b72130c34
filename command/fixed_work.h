#pragma once

#include <cstdint>

#include "stretto/base/clock.h"

namespace stretto::command {

/// Work whose speed is that of a core and of nothing else: passes over 32 KiB of integers, which stay in its cache.
/// Returns the seconds that so many take.
double timed_work(std::uint64_t passes);

/// So many passes take about `time` here, when nobody else is on the core.
std::uint64_t calibrate(Duration time);

}  // namespace stretto::command
