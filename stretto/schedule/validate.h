#pragma once

#include <span>

#include "stretto/schedule/schedule.h"

namespace stretto {

/// Checks the schedules of all ranks of one collective against each other: every send has its recv on the peer with
/// the same channel and size in bytes, and the other way round; no channel is used twice between two ranks.
/// Throws UsageError naming the operations. `schedules[r]` is rank r's.
void validate(std::span<const Schedule> schedules);

}  // namespace stretto
