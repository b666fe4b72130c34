#pragma once

#include <cstddef>
#include <span>

namespace stretto {

/// Less is not worth huge pages: it stays in caches, whose tables of pages it fits into.
inline constexpr std::size_t kWorthHugePages = 256 << 10;

/// Puts memory that is about to be used on huge pages, as far as they lie within `room`, which contains it. Reading
/// many large buffers at once goes a third faster so: hardware prefetches no further than a page. Costs no more than
/// the first touch of small pages would, changes no bytes, and does nothing where the system has none to give or
/// `memory` is smaller than kWorthHugePages. Whole huge pages come into being: `room` may be in use by others.
void use_huge_pages(std::span<std::byte> memory, std::span<std::byte> room);

}  // namespace stretto
