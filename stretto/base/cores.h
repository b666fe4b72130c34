#pragma once

#include <span>
#include <string>
#include <vector>

#include "stretto/base/clock.h"

namespace stretto {

/// The cores that this process may run on, by their numbers, at least one.
std::vector<int> usable_cores();

/// How many cores this process can keep busy at once, at least one: those it may run on, and no more than the quota of
/// its control groups gives in a period, rounded up. As it was at the first call of this process. Thread-safe.
int num_cores();

/// The same, read anew. `root` stands before /proc and /sys (tests).
int count_cores(const std::string& root = "");

/// From now on the calling thread runs on these cores alone, by their numbers. Throws Failure (Errc::io). Requires: at
/// least one.
void pin_thread(std::span<const int> cores);

/// Processor time that the calling thread has used.
Duration thread_time();

}  // namespace stretto
