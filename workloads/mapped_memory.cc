#include "workloads/mapped_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

namespace stretto {
namespace {

constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();

// The first number of a file, or `otherwise` where there is no such file or number ("max").
std::size_t number_in(const char* path, std::size_t otherwise) {
  std::ifstream in(path);
  std::size_t value = 0;
  return in >> value ? value : otherwise;
}

std::size_t machine_available() {
  std::ifstream in("/proc/meminfo");
  std::string key;
  std::size_t kibibytes = 0;
  while (in >> key >> kibibytes) {
    if (key == "MemAvailable:") return kibibytes * 1024;
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return kUnlimited;
}

std::string mebibytes(std::size_t bytes) {
  return text((bytes + (1u << 20) - 1) >> 20, " MiB");
}

}  // namespace

std::size_t available_memory() {
  const std::size_t limit = number_in("/sys/fs/cgroup/memory.max", kUnlimited);
  const std::size_t used = number_in("/sys/fs/cgroup/memory.current", 0);
  const std::size_t container = limit == kUnlimited ? kUnlimited : limit - std::min(limit, used);
  return std::min(container, machine_available());
}

MappedMemory::~MappedMemory() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

Result<MappedMemory> MappedMemory::allocate(std::size_t bytes, std::string_view purpose) {
  if (const std::size_t left = available_memory(); bytes > left) {
    return Error{Errc::unavailable,
                 text(purpose, " needs ", mebibytes(bytes), " of memory, and ", mebibytes(left), " are left")};
  }
  void* start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) {
    return Error{Errc::unavailable, text(purpose, " needs ", mebibytes(bytes), " of memory: ", std::strerror(errno))};
  }
  madvise(start, bytes, MADV_HUGEPAGE);  // only advice: works without
  return MappedMemory({static_cast<std::byte*>(start), bytes});
}

void MappedMemory::make_read_only() {
  STRETTO_CHECK(mprotect(bytes_.data(), bytes_.size(), PROT_READ) == 0, std::strerror(errno));
}

}  // namespace stretto
