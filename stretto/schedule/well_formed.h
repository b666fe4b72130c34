#pragma once

#include <string>

#include "stretto/schedule/schedule.h"

namespace stretto {

/// Throws UsageError with `what`, after the schedule's name and rank.
[[noreturn]] void refuse(const Schedule& schedule, const std::string& what);

/// What ScheduleBuilder::build() checks of one rank's schedule beside the needs; see there. Throws UsageError.
/// Requires: edges between operations that exist.
void check_well_formed(const Schedule& schedule);

}  // namespace stretto
