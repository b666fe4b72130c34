#pragma once

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/membership/world.h"
#include "stretto/transport/job_memory.h"
#include "stretto/transport/shm.h"

namespace stretto {

/// A world that this process alone is in, for what a rank has before it begins in a world of others.
class WorldOfOne {
 public:
  /// `clock` outlives it, and what was made over it.
  explicit WorldOfOne(const Clock& clock) : world_(transport_, clock) {}
  WorldOfOne(const WorldOfOne&) = delete;
  WorldOfOne& operator=(const WorldOfOne&) = delete;

  World& world() { return world_; }

 private:
  JobMemory memory_ = JobMemory::create(1, 0).or_throw();
  ShmTransport transport_{memory_, 0};
  World world_;
};

}  // namespace stretto
