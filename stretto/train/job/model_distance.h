#pragma once

#include <cstdint>

namespace stretto {

/// How far a rank's own model was from the average of all, as shares of the norm of that, sampled when ranks met.
struct ModelDistance {
  std::uint64_t rounds = 0;  ///< in which they met
  double sum = 0;            ///< over these
  double last = 0;

  void add(double share) {
    ++rounds;
    sum += share;
    last = share;
  }
  double mean() const { return rounds == 0 ? 0 : sum / static_cast<double>(rounds); }
};

}  // namespace stretto
