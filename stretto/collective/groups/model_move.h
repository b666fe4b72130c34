#pragma once

#include <cstdint>

namespace stretto {

/// How a rank uses a sum of its older model X, where it computed meanwhile and its newest, W', is not in the sum.
enum class StaleRule : std::uint8_t {
  mix,    ///< (sum + W') / (members + 1), as in the paper: keeps 1/(members + 1) of what it has done since X
  carry,  ///< sum / members + (W' − X): keeps all that it has done, and not what X has taken from the others
  moves,  ///< GroupOptions::moves: X becomes sum / members at once, and its step is put on that: keeps all of all ranks
};

/// The change of a rank's model W' by a result of a GroupAllreduce.
enum class ModelMove : std::uint8_t {
  average,  ///< sum / members
  mix,      ///< (sum + W') / (members + 1)
  carry,    ///< sum / members + (W' − X)
};

/// The move for a result. `fresh`: W' is in the sum, as always under StaleRule::moves. `drained`: the rank has no W' of
/// its own any more.
constexpr ModelMove model_move(bool fresh, bool drained, StaleRule rule) {
  if (fresh || drained) return ModelMove::average;
  return rule == StaleRule::mix ? ModelMove::mix : ModelMove::carry;
}

}  // namespace stretto
