#pragma once

#include <span>
#include <string>

#include "stretto/schedule/schedule.h"

namespace stretto {

/// For a person: the buffers, then one line an operation: its action and its predecessors.
std::string to_text(const Schedule& schedule);

/// For Graphviz: one rank or all of a job, each rank a cluster. Colours as in the eager-SGD paper, Fig. 6: blue sends,
/// green receives, orange computes, white nops. A dashed border means that some of the predecessors are enough, a
/// double one that it waits for a trigger from outside; dashed arrows are messages.
std::string to_dot(std::span<const Schedule> schedules);

/// For LogGOPSim, in GOAL: all ranks of a job, a tag of its own for every message, one nanosecond of `calc` for every
/// 8 bytes that a reduce or copy writes, and at least one byte a message (a round header is not counted).
///
/// GOAL knows only AND. So the schedules are run once: only the external operations of `initiator` are triggered, at
/// time 0; every operation takes a microsecond (a delay its own time) and a message none. Operations that do not finish
/// in this run are left out, except that the recv of a message that was sent is always there. An operation that waits
/// for some of its predecessors requires those that finished first in this run.
/// Throws UsageError for schedules that do not pass validate(), an initiator outside the job, and ranks that do not
/// complete when it starts the round.
std::string to_goal(std::span<const Schedule> schedules, int initiator);

}  // namespace stretto
