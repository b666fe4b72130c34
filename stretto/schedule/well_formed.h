#pragma once

#include <string>

#include "stretto/schedule/schedule.h"

namespace stretto {

/// Throws UsageError with `what`, after the schedule's name and rank.
[[noreturn]] void refuse(const Schedule& schedule, const std::string& what);

/// The checks that ScheduleBuilder::build() makes of one rank's schedule, but for the needs; see there. Throws
/// UsageError. Requires: edges between operations that exist.
void check_well_formed(const Schedule& schedule);

/// Throws UsageError if a schedule of so many operations cannot be.
void check_number_of_ops(const Schedule& schedule, std::uint64_t ops);

}  // namespace stretto
