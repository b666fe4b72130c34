#pragma once

#include <cstdint>

namespace stretto {

/// Bytes that move between caches together.
inline constexpr std::uint64_t kCacheLine = 64;
/// Bytes of memory that are mapped together.
inline constexpr std::uint64_t kPage = 4096;
inline constexpr std::uint64_t kHugePage = 2u << 20;  ///< the same of huge pages

/// The next multiple of `to`.
constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t to) {
  return (value + to - 1) / to * to;
}

/// From one of several buffers of that size to the next. At large powers of two they would all begin in the same sets
/// of every cache, where few lines find room at a time. No page is of two buffers, unless they are smaller: a device
/// that copies registers whole pages, and each once.
constexpr std::uint64_t staggered(std::uint64_t bytes) {
  return bytes >= kPage ? round_up(bytes, kPage) + kPage + 17 * kCacheLine : round_up(bytes, kCacheLine);
}

}  // namespace stretto
