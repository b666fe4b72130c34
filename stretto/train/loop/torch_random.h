#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace stretto {

/// The state of LibTorch's default random number generator on the CPU, as numbers: dropout and the like draw from it.
std::vector<std::uint64_t> random_state();

/// Takes over what random_state() gave. Throws UsageError for numbers that are no such state.
void set_random_state(std::span<const std::uint64_t> state);

}  // namespace stretto
