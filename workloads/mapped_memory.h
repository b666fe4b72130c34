#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

#include "stretto/base/error.h"

namespace stretto {

/// Anonymous pages that the processes forked from this one share as long as none of them writes, in huge pages where
/// the machine has them. Movable; unmaps itself.
class MappedMemory {
 public:
  MappedMemory() = default;
  MappedMemory(MappedMemory&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedMemory& operator=(MappedMemory&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MappedMemory();

  /// Zeroed. Errc::unavailable says how much `purpose` needs and how much the machine or its container has left.
  static Result<MappedMemory> allocate(std::size_t bytes, std::string_view purpose);

  std::span<std::byte> bytes() const { return bytes_; }

  /// From now on a write is a crash rather than a silent copy.
  void make_read_only();

 private:
  explicit MappedMemory(std::span<std::byte> bytes) : bytes_(bytes) {}

  std::span<std::byte> bytes_;
};

}  // namespace stretto
