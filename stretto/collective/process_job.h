#pragma once

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/collective/plain.h"
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

/// For tests, one rank of a job of which `victim` is killed `after` its first allreduce of `count` float32, in the
/// middle of a later one: 0 where each result handed over was right and the others were told in time whom they have
/// lost.
inline int allreduce_until_lost(Engine& engine, const AllreduceOptions& options, std::uint64_t count, int victim,
                                Duration after) {
  constexpr Duration kWatchdog = std::chrono::seconds(60);
  Allreduce allreduce(engine, DataType::float32, count, ReduceOp::sum, options);
  EngineDriver driver(engine, {.progress_by = ProgressBy::application, .spin = Duration{0}});
  std::vector<float> mine(count), sum(count);
  const bool dies = engine.rank() == victim;
  if (dies) {
    allreduce.run(driver, driver.deadline(kWatchdog), mine, sum).or_throw();
    kill_after(after);
  }
  for (int round = dies ? 1 : 0;; ++round) {
    mine.assign(count, static_cast<float>(round));
    const TimePoint begin = engine.clock().now();
    const auto result = allreduce.run(driver, driver.deadline(kWatchdog), mine, sum);
    if (!result) {
      if (result.error().code != Errc::lost_peer || result.error().rank != victim) return 2;
      return engine.clock().now() - begin < std::chrono::milliseconds(1500) ? 0 : 3;
    }
    for (const float x : sum) {
      if (x != static_cast<float>(engine.size() * round)) return 1;
    }
  }
}

}  // namespace stretto
