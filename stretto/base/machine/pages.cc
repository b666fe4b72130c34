#include "stretto/base/machine/pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace stretto {
namespace {

// Of Linux 5.14 and 6.1; C libraries of the time do not know them all.
constexpr int kPopulateRead = 22;
constexpr int kCollapse = 25;

}  // namespace

void use_huge_pages(std::span<std::byte> memory, std::span<std::byte> room) {
  if (memory.size() < kWorthHugePages) return;
  // Offsets in the room; huge pages begin at `first` + n · kHugePage.
  const std::uint64_t first = (kHugePage - reinterpret_cast<std::uintptr_t>(room.data()) % kHugePage) % kHugePage;
  const auto from = static_cast<std::uint64_t>(memory.data() - room.data());
  const std::uint64_t begin = from < first ? first : first + (from - first) / kHugePage * kHugePage;
  const std::uint64_t end = from + memory.size();
  for (std::uint64_t at = begin; at < end && at + kHugePage <= room.size(); at += kHugePage) {
    std::byte* const page = room.data() + at;
    // Shared memory collapses only where there is something.
    if (::madvise(page, kPage, kPopulateRead) != 0 || ::madvise(page, kHugePage, kCollapse) != 0) return;
  }
}

}  // namespace stretto
