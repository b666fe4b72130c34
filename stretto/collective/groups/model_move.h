#pragma once

#include <cstdint>

namespace stretto {

/// What a rank does with a sum that has an older model of its own, X, and not its newest, W'.
enum class StaleRule : std::uint8_t {
  mix,    ///< (sum + W') / (members + 1), as in the paper: keeps 1/(members + 1) of what it has done since X
  carry,  ///< sum / members + (W' − X): keeps all of it
};

/// What becomes of a rank's model W' after an exchange of a GroupAllreduce.
enum class ModelMove : std::uint8_t {
  average,  ///< sum / members
  mix,      ///< (sum + W') / (members + 1)
  carry,    ///< sum / members + (W' − X)
};

/// The move for a result. `fresh`: W' is in the sum. `drained`: the rank has no W' of its own any more.
constexpr ModelMove model_move(bool fresh, bool drained, StaleRule rule) {
  if (fresh || drained) return ModelMove::average;
  return rule == StaleRule::mix ? ModelMove::mix : ModelMove::carry;
}

}  // namespace stretto
