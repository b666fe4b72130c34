#pragma once

#include <algorithm>
#include <thread>

namespace stretto {

/// Cores of this machine, at least one.
inline int num_cores() {
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace stretto
