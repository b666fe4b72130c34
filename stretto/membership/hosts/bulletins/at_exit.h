#pragma once

#include <functional>

namespace stretto {

/// Has `call` run when this process ends by exit(), and not in one that it has forked. A process manager is told of a
/// rank's end there and not before: it serves a process once, and an MPI that the application begins later needs it.
void at_exit_of_process(std::function<void()> call);

}  // namespace stretto
