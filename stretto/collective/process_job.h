#pragma once

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/engine/engine.h"
#include "stretto/transport/job_memory.h"
#include "stretto/transport/shm.h"

namespace stretto {

/// For tests: runs `main` in processes that watch each other; returns their exit statuses (128 + signal for a killed
/// one).
inline std::vector<int> run_process_job(int ranks, const std::function<int(Engine&)>& main) {
  auto memory = JobMemory::create(ranks).or_throw();
  std::vector<pid_t> processes;
  for (int rank = 0; rank < ranks; ++rank) {
    processes.push_back(fork());
    if (processes.back() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
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
      _exit(status);
    }
    memory.enter(rank, processes.back());
  }
  std::vector<int> out;
  for (const pid_t process : processes) {
    int status = 0;
    STRETTO_CHECK(waitpid(process, &status, 0) == process, "waiting for process ", process);
    out.push_back(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
  }
  return out;
}

/// For tests: kills this process after `duration`, whatever it does meanwhile.
inline void kill_after(Duration duration) {
  std::thread([duration] {
    std::this_thread::sleep_for(duration);
    kill(getpid(), SIGKILL);
  }).detach();
}

}  // namespace stretto
