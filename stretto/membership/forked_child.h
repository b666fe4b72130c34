#pragma once

#include <cstddef>
#include <span>

namespace stretto {

/// Takes care that a process which this rank forks cannot act as the rank: `memory`, the job's, is not there in such
/// a process, and the first access to it prints a line that says so and ends that process with status 1.
/// Once in the life of a rank.
void keep_from_forked_children(std::span<std::byte> memory);

/// Says that this process was forked by a rank and has gone on in the rank's function, and ends it with status 1.
[[noreturn]] void end_forked_child();

}  // namespace stretto
