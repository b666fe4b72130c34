#pragma once

#include <deque>
#include <functional>
#include <string>

#include "stretto/base/clock.h"
#include "stretto/membership/job.h"
#include "stretto/membership/rank_pipe.h"
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

}  // namespace stretto
