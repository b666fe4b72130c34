#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "stretto/base/clock.h"

namespace stretto::command {

/// The machine a measurement was made on: numbers mean little without it.
struct Machine {
  std::string cpu;  ///< model name
  int cores = 0;    ///< that this process may run on
  double load = 0;  ///< run queue, mean of the last minute
  std::uint64_t memory_bytes = 0;
  std::string system;  ///< kernel and release

  /// "Xeon …, 2 cores, 24 GB, load 0.3, Linux 6.1".
  std::string to_text() const;
  nlohmann::ordered_json to_json() const;
};

Machine this_machine();

/// The share of this machine's processor time, 0 … 1, that other programs (and its host) take while this process
/// sleeps for `window`. NaN where /proc/stat does not say.
double background_load(Duration window);

}  // namespace stretto::command
