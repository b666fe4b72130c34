#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include "stretto/base/clock.h"
#include "stretto/membership/job.h"
#include "stretto/membership/rank_end.h"
#include "stretto/transport/job_memory.h"
#include "stretto/transport/shm.h"

namespace stretto {

/// The context of a rank that hands on what it reports and complains of.
class SayingRankContext : public RankContext {
 public:
  void report(std::string text) override;
  void complain(const Error& error) override;

 protected:
  /// `say` is given both.
  explicit SayingRankContext(std::function<void(const RankMessage&)> say) : say_(std::move(say)) {}

 private:
  const std::function<void(const RankMessage&)> say_;
  bool reported_ = false;
};

/// The same where the rank's host has a memory of the job, or of a world of some of its ranks.
class MemoryRankContext : public SayingRankContext {
 public:
  ~MemoryRankContext() override;
  bool interrupted() override { return memory_.interrupted(); }

 protected:
  /// `memory` outlives it. `say` is given what the rank reports and complains of.
  MemoryRankContext(JobMemory& memory, std::function<void(const RankMessage&)> say);
  JobMemory& memory_;
};

/// The same where all ranks of the job are on one host.
class ShmRankContext final : public MemoryRankContext {
 public:
  /// As MemoryRankContext().
  ShmRankContext(JobMemory& memory, int rank, std::function<void(const RankMessage&)> say);

  World& world() override { return world_; }
  SharedCounter& counter(int index) override { return counters_.at(static_cast<std::size_t>(index)); }
  std::span<std::byte> extra() override { return memory_.extra(); }

 private:
  ShmTransport transport_;
  std::deque<MemoryCounter> counters_;
  const SteadyClock clock_;
  World world_{transport_, clock_};
};

/// Says that this process was forked by a rank and has gone on in the rank's function, and ends it with status 1.
[[noreturn]] void end_forked_child();

}  // namespace stretto
