#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

#include "stretto/base/error.h"

namespace stretto {

/// Anonymous pages that the processes forked from this one share as long as nobody writes, in huge pages where the
/// machine has them. Movable; unmaps itself.
class MappedMemory {
 public:
  MappedMemory() = default;
  MappedMemory(MappedMemory&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedMemory& operator=(MappedMemory&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MappedMemory();

  /// Zeroed. Errc::unavailable says what `purpose` needs and what the machine or its container has left.
  static Result<MappedMemory> allocate(std::size_t bytes, std::string_view purpose);

  std::span<std::byte> bytes() const { return bytes_; }

  /// From now on a write is a crash rather than a silent copy.
  void make_read_only();

 private:
  explicit MappedMemory(std::span<std::byte> bytes) : bytes_(bytes) {}

  std::span<std::byte> bytes_;
};

/// Bytes that can still be used: of the machine, and of the container where it sets a limit.
std::size_t available_memory();

}  // namespace stretto
