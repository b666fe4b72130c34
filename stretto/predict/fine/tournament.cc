#include "stretto/predict/fine/tournament.h"

#include <algorithm>
#include <bit>

namespace stretto {

Tournament::Tournament(std::size_t slots)
    : leaves_(std::bit_ceil(std::max<std::size_t>(slots, 2))), moments_(leaves_), winners_(leaves_) {
  for (std::size_t node = leaves_ - 1; node > 0; --node) winners_[node] = static_cast<std::uint32_t>(winner(2 * node));
}

void Tournament::set(std::size_t slot, double time, std::uint64_t order) {
  moments_[slot] = {time, order};
  for (std::size_t node = (slot + leaves_) / 2; node > 0; node /= 2) {
    const std::size_t left = winner(2 * node);
    const std::size_t right = winner(2 * node + 1);
    const Moment& a = moments_[left];
    const Moment& b = moments_[right];
    const bool right_wins = b.time < a.time || (b.time == a.time && b.order < a.order);
    const auto won = static_cast<std::uint32_t>(right_wins ? right : left);
    // Where neither this slot wins nor won before, nothing changes above.
    if (winners_[node] == won && won != slot) return;
    winners_[node] = won;
  }
}

}  // namespace stretto
