#pragma once

#include <span>
#include <string>
#include <vector>

#include "stretto/schedule/schedule.h"

namespace stretto {

/// Checks the schedules of all ranks of one collective against each other: every send has its recv on the peer with
/// the same channel, size in bytes and with_header, and the other way round; and every rank completes once all triggers
/// from outside are given, however operations wait for each other across ranks. (That no channel is used twice from one
/// rank to another has been checked by ScheduleBuilder::build.) `schedules[r]` is rank r's.
/// Throws UsageError naming the operations.
void validate(std::span<const Schedule> schedules);

/// A send and the recv of its message.
struct Message {
  int src = 0;        ///< the rank that sends
  OpId send = kNoOp;  ///< in its schedule
  int dst = 0;        ///< the rank that receives
  OpId recv = kNoOp;  ///< in its schedule
};

/// All messages that the schedules, of some ranks or all, can exchange with each other: by sender and its operation.
std::vector<Message> messages_of(std::span<const Schedule> schedules);

/// \cond inner
/// Throws UsageError with `what`, after the schedule's name and rank.
[[noreturn]] void refuse(const Schedule& schedule, const std::string& what);

/// The checks that ScheduleBuilder::build() makes of one rank's schedule, but for the needs; see there. Throws
/// UsageError. Requires: edges between operations that exist.
void check_well_formed(const Schedule& schedule);

/// Throws UsageError if a schedule of so many operations cannot be.
void check_number_of_ops(const Schedule& schedule, std::uint64_t ops);
/// \endcond

}  // namespace stretto
