#pragma once

#include <cstddef>
#include <span>

namespace stretto {

/// Smaller buffers gain nothing from huge pages: they stay in caches, and their pages fit into the processor's tables.
inline constexpr std::size_t kWorthHugePages = 256 << 10;

/// Puts memory that is about to be used on huge pages, as far as they lie within `room`, which contains it. Reading
/// many large buffers at once is a third faster then, since hardware prefetches no further than a page. Costs no more
/// than the first touch of small pages would, changes no bytes, and does nothing where the system has none to give or
/// `memory` is smaller than kWorthHugePages. Whole huge pages are made, which may contain bytes beside `memory`; other
/// threads may be using the rest of `room`.
void use_huge_pages(std::span<std::byte> memory, std::span<std::byte> room);

}  // namespace stretto
