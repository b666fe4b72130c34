#pragma once

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/transport/job_memory.h"

namespace stretto {

/// For tests: runs `be` as every rank of a job in a process of its own. Without a launcher: the ranks watch each other.
/// Returns their exit statuses (128 + signal for a killed one).
inline std::vector<int> run_rank_processes(int ranks, const std::function<int(JobMemory& memory, int rank)>& be) {
  auto memory = JobMemory::create(ranks).or_throw();
  std::fflush(nullptr);
  std::vector<pid_t> processes;
  for (int rank = 0; rank < ranks; ++rank) {
    processes.push_back(fork());
    if (processes.back() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int status = be(memory, rank);
      std::fflush(nullptr);
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

}  // namespace stretto
