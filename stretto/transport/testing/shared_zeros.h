#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

namespace stretto {

/// For tests: zeros that processes share which are forked from now on.
class SharedZeros {
 public:
  explicit SharedZeros(std::uint64_t bytes)
      : bytes_(bytes),
        at_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (at_ == MAP_FAILED) std::abort();
  }
  ~SharedZeros() { munmap(at_, bytes_); }
  SharedZeros(const SharedZeros&) = delete;
  SharedZeros& operator=(const SharedZeros&) = delete;
  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(at_), bytes_}; }

 private:
  const std::uint64_t bytes_;
  void* const at_;
};

}  // namespace stretto
