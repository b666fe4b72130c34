#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

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

/// Smaller buffers gain nothing from huge pages: they stay in caches, and their pages fit into the processor's tables.
inline constexpr std::size_t kWorthHugePages = 256 << 10;

/// Puts memory that is about to be used on huge pages, as far as they lie within `room`, which contains it. Reading
/// many large buffers at once is a third faster then, since hardware prefetches no further than a page. Costs no more
/// than the first touch of small pages would, changes no bytes, and does nothing where the system has none to give or
/// `memory` is smaller than kWorthHugePages. Whole huge pages are made, which may contain bytes beside `memory`; other
/// threads may be using the rest of `room`.
void use_huge_pages(std::span<std::byte> memory, std::span<std::byte> room);

}  // namespace stretto
