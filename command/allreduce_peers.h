#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"

namespace stretto::command {

/// How long one allreduce of so many bytes (float32, sum) takes, from a loop of `calls`.
struct AllreduceTime {
  std::uint64_t bytes = 0;
  int calls = 0;
  double microseconds = 0;
};

/// Lines of "BYTES CALLS MICROSECONDS", as a peer program prints them; other lines are skipped.
std::vector<AllreduceTime> parse_allreduce_times(const std::string& text);

/// A library that ours is compared with.
struct AllreducePeer {
  std::string name;
  /// Starts `ranks` processes that spend about `time` on each size. Errc::unavailable says what is missing.
  std::function<Result<std::vector<AllreduceTime>>(int ranks, Duration time, std::span<const std::uint64_t> sizes)> run;
};

/// openmpi, mpich, gloo (bench/README.md says how to add one).
const std::vector<AllreducePeer>& allreduce_peers();

}  // namespace stretto::command
