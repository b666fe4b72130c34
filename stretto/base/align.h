#pragma once

#include <cstdint>

namespace stretto {

/// Bytes that move between caches together.
inline constexpr std::uint64_t kCacheLine = 64;
/// Bytes of memory that are mapped together, and of huge pages.
inline constexpr std::uint64_t kPage = 4096;
inline constexpr std::uint64_t kHugePage = 2u << 20;

/// The next multiple of `to`.
constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t to) {
  return (value + to - 1) / to * to;
}

}  // namespace stretto
