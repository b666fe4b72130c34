#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <span>
#include <vector>

#include "stretto/base/machine/pages.h"
#include "stretto/collective/plain.h"
#include "stretto/collective/testing/watchdog.h"
#include "stretto/engine/engine.h"
#include "stretto/transport/shm.h"
#include "stretto/transport/testing/processes.h"

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

/// For tests: floats of one value. When this process touches the page of one of them, it dies as by SIGKILL.
class DeadlyMemory {
 public:
  /// Requires: at < count.
  DeadlyMemory(std::uint64_t count, float value, std::uint64_t at) : floats_(count) {
    void* pages = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    STRETTO_CHECK(pages != MAP_FAILED, "no ", bytes(), " bytes");
    pages_ = static_cast<std::byte*>(pages);
    std::ranges::fill(floats(), value);
    struct sigaction action = {};
    action.sa_handler = [](int) { kill(getpid(), SIGKILL); };
    sigaction(SIGSEGV, &action, nullptr);
    mprotect(pages_ + at * sizeof(float) / kPage * kPage, kPage, PROT_NONE);
  }
  DeadlyMemory(const DeadlyMemory&) = delete;
  ~DeadlyMemory() { munmap(pages_, bytes()); }

  std::span<float> floats() { return {reinterpret_cast<float*>(pages_), floats_}; }

 private:
  std::uint64_t bytes() const { return round_up(floats_ * sizeof(float), kPage); }

  const std::uint64_t floats_;
  std::byte* pages_ = nullptr;
};

/// Where in its second allreduce a rank dies.
struct Death {
  enum class Touching { contribution, result } touching;
  std::uint64_t element;
};

/// For tests, one rank of a job of which `victim` is killed in the middle of its second allreduce of `count` float32,
/// when it touches an element of its contribution or of its result: 0 where each result handed over was right and the
/// others were told whom they have lost.
inline int allreduce_until_lost(Engine& engine, const AllreduceOptions& options, std::uint64_t count, int victim,
                                Death death) {
  Allreduce allreduce(engine, DataType::float32, count, ReduceOp::sum, options);
  EngineDriver driver(engine, {.progress_by = ProgressBy::application, .spin = Duration{0}});
  std::vector<float> mine(count), sum(count);
  if (engine.rank() == victim) {
    allreduce.run(driver, driver.deadline(kWatchdog), mine, sum).or_throw();
    DeadlyMemory deadly(count, 1.0f, death.element);
    const bool at_result = death.touching == Death::Touching::result;
    mine.assign(count, 1.0f);
    const auto unharmed = std::span(at_result ? mine : sum);
    (void)allreduce.run(driver, driver.deadline(kWatchdog), at_result ? unharmed : deadly.floats(),
                        at_result ? deadly.floats() : unharmed);
    return 4;
  }
  for (int round = 0;; ++round) {
    mine.assign(count, static_cast<float>(round));
    const auto result = allreduce.run(driver, driver.deadline(kWatchdog), mine, sum);
    if (!result) {
      return result.error().code == Errc::lost_peer && result.error().rank == victim ? 0 : 2;
    }
    for (const float x : sum) {
      if (x != static_cast<float>(engine.size() * round)) return 1;
    }
  }
}

}  // namespace stretto
