#pragma once

#include <cstdint>

#include "stretto/base/clock.h"

namespace stretto::command {

/// Work whose speed is that of a core and of nothing else: passes over 32 KiB of integers, which stay in its cache.
/// Returns the seconds that so many take.
double timed_work(std::uint64_t passes);

/// The number of passes that take about `time` here, on a core of its own.
std::uint64_t calibrate(Duration time);

}  // namespace stretto::command
