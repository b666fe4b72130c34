#pragma once

#include <csignal>
#include <functional>
#include <thread>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/transport/job_memory.h"
#include "stretto/transport/shm.h"

namespace stretto {

/// For tests: runs `main` as every rank of a job, in threads of this process (so that the thread sanitizer sees them
/// all), over shared memory. A rank whose main returns false counts as killed.
inline void run_thread_ranks(int ranks, const std::function<bool(Transport&, const Clock&)>& main) {
  auto memory = JobMemory::create(ranks).or_throw();
  memory.set_watched();
  const SteadyClock clock;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ShmTransport transport(memory, rank);
      if (main(transport, clock)) {
        memory.leave(rank);
      } else {
        memory.mark_lost(rank, SIGKILL);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace stretto
