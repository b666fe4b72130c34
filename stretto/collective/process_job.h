#pragma once

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/engine/engine.h"
#include "stretto/transport/processes.h"
#include "stretto/transport/shm.h"

namespace stretto {

/// For tests: runs `main` as every rank of a job in a process of its own (run_rank_processes()).
inline std::vector<int> run_process_job(int ranks, const std::function<int(Engine&)>& main) {
  return run_rank_processes(ranks, [&main](JobMemory& memory, int rank) {
    const SteadyClock clock;
    ShmTransport transport(memory, rank);
    Engine engine(transport, clock);
    int status = 9;
    try {
      status = main(engine);
      memory.leave(rank);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    }
    return status;
  });
}

/// For tests: kills this process after `duration`, whatever it does meanwhile.
inline void kill_after(Duration duration) {
  std::thread([duration] {
    std::this_thread::sleep_for(duration);
    kill(getpid(), SIGKILL);
  }).detach();
}

}  // namespace stretto
