#include "stretto/base/huge_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

#include "stretto/base/align.h"

namespace stretto {
namespace {

// Of Linux 5.14 and 6.1; C libraries of the time do not know them all.
constexpr int kPopulateRead = 22;
constexpr int kCollapse = 25;

}  // namespace

void use_huge_pages(std::span<std::byte> memory, std::span<std::byte> room) {
  if (memory.size() < kWorthHugePages) return;
  const auto address = [](const std::byte* at) { return reinterpret_cast<std::uintptr_t>(at); };
  const auto down = [](std::uintptr_t at) { return at / kHugePage * kHugePage; };
  const auto begin = std::max<std::uintptr_t>(down(address(memory.data())), round_up(address(room.data()), kHugePage));
  const auto end = std::min<std::uintptr_t>(round_up(address(memory.data() + memory.size()), kHugePage),
                                            down(address(room.data() + room.size())));
  for (auto at = begin; at < end; at += kHugePage) {
    auto* const page = reinterpret_cast<void*>(at);
    // Shared memory collapses only where there is something.
    if (::madvise(page, kPage, kPopulateRead) != 0 || ::madvise(page, kHugePage, kCollapse) != 0) return;
  }
}

}  // namespace stretto
