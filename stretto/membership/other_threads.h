#pragma once

namespace stretto {

/// Threads of this process beside the calling one.
int num_other_threads();

/// Waits until all other threads of this process sleep, a second at most. Returns whether they do. A thread that
/// computes may hold a lock, which a process forked meanwhile would find locked for ever; one that waits for work, as
/// those of OpenMP do, holds none.
bool other_threads_sleep();

}  // namespace stretto
