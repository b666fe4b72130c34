#pragma once

#include <cstdint>
#include <string>

#include "stretto/base/clock.h"

namespace stretto {

/// The times of a tensor on one rank, from the time it was handed over until its sum was there: once for each fused
/// buffer that it was in. The five times ascend; each is where one part ends and the next begins.
struct TensorTimes {
  std::string name;          ///< of the tensor
  int set = 0;               ///< process set
  std::uint64_t step = 0;    ///< the same on every rank
  std::uint64_t buffer = 0;  ///< in the set's sequence of fused buffers
  bool is_void = false;      ///< the buffer was thrown away, since the graph had changed: the tensor comes again
  bool comes_again = false;  ///< its last buffer was thrown away: `submitted` and `taken` are when that was known
  TimePoint submitted;       ///< an application thread has handed it over; QUEUE begins
  TimePoint taken;           ///< the thread that drives the engine has seen it; NEGOTIATE begins
  TimePoint begun;           ///< its fused buffer began; FUSE begins
  TimePoint fused;           ///< all of the rank's part of the buffer lies where the others find it; TRANSFER begins
  TimePoint done;            ///< the sum lies where the application finds it, or the buffer was thrown away
};

}  // namespace stretto
