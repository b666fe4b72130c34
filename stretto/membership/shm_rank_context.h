#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <span>
#include <string>

#include "stretto/base/clock.h"
#include "stretto/membership/job.h"
#include "stretto/membership/rank_end.h"
#include "stretto/transport/job_memory.h"
#include "stretto/transport/shm.h"

namespace stretto {

/// The context of a rank whose job is in shared memory. One in a process.
class ShmRankContext final : public RankContext {
 public:
  /// `memory` outlives it. `say` is given what the rank reports and complains of.
  ShmRankContext(JobMemory& memory, int rank, std::function<void(const RankMessage&)> say);

  World& world() override { return world_; }
  SharedCounter& counter(int index) override { return counters_.at(static_cast<std::size_t>(index)); }
  std::span<std::byte> extra() override { return memory_.extra(); }
  bool interrupted() override { return memory_.interrupted(); }
  void report(std::string text) override;
  void complain(const Error& error) override;

 private:
  JobMemory& memory_;
  ShmTransport transport_;
  std::deque<MemoryCounter> counters_;
  const std::function<void(const RankMessage&)> say_;
  bool reported_ = false;
  const SteadyClock clock_;
  World world_{transport_, clock_};
};

/// Takes care that a process which this rank forks cannot act as the rank: `memory`, the job's, is not there in such
/// a process, and the first access to it prints a line that says so and ends that process with status 1.
/// Once in the life of a rank.
void keep_from_forked_children(std::span<std::byte> memory);

/// Says that this process was forked by a rank and has gone on in the rank's function, and ends it with status 1.
[[noreturn]] void end_forked_child();

}  // namespace stretto
