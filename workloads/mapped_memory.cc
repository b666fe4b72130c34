#include "workloads/mapped_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "stretto/transport/memory_budget.h"

namespace stretto {
MappedMemory::~MappedMemory() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

Result<MappedMemory> MappedMemory::allocate(std::size_t bytes, std::string_view purpose) {
  if (const MemoryBudget left = available_memory(); bytes > left.bytes) {
    return Error{Errc::unavailable, text(purpose, " needs ", format_bytes(bytes), " of memory, and ",
                                         format_bytes(left.bytes), " are left (", left.limit, ")")};
  }
  void* start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) {
    return Error{Errc::unavailable,
                 text(purpose, " needs ", format_bytes(bytes), " of memory: ", std::strerror(errno))};
  }
  madvise(start, bytes, MADV_HUGEPAGE);  // only advice: works without
  return MappedMemory({static_cast<std::byte*>(start), bytes});
}

void MappedMemory::make_read_only() {
  STRETTO_CHECK(mprotect(bytes_.data(), bytes_.size(), PROT_READ) == 0, std::strerror(errno));
}

}  // namespace stretto
