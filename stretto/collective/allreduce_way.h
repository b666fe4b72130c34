#pragma once

#include <cstddef>

#include "stretto/collective/argument.h"
#include "stretto/engine/driver.h"

namespace stretto {

/// One way of doing what Allreduce promises; see there for what the calls mean.
class AllreduceWay {
 public:
  virtual ~AllreduceWay() = default;
  virtual Result<void> run(EngineDriver& driver, TimePoint deadline, const Argument& mine, const Argument& sum) = 0;
  /// From input() to result().
  virtual Result<void> run(EngineDriver& driver, TimePoint deadline) = 0;
  virtual std::byte* input() = 0;
  virtual const std::byte* result() = 0;
};

}  // namespace stretto
