#pragma once

#include <cstddef>

#include "stretto/collective/argument.h"
#include "stretto/collective/collective.h"
#include "stretto/engine/driver.h"

namespace stretto {

/// One way of doing an Allreduce; the calls mean the same as there.
class AllreduceWay : public Collective {
 public:
  virtual Result<void> run(Driver& driver, TimePoint deadline, const Argument& mine, const Argument& sum) = 0;
  /// From input() to result().
  virtual Result<void> run(Driver& driver, TimePoint deadline) = 0;
  virtual std::byte* input() = 0;
  virtual const std::byte* result() = 0;
};

}  // namespace stretto
