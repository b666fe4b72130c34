#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <memory>
#include <span>

namespace stretto::python {

/// Bytes that Python may read and write: a writable buffer, for memoryview() and torch.frombuffer(). What the bytes
/// belong to lives as long as any view of them.
class Memory {
 public:
  Memory(std::span<std::byte> bytes, std::shared_ptr<void> owner) : bytes_(bytes), owner_(std::move(owner)) {}
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
  std::shared_ptr<void> owner_;
};

void bind_memory(nanobind::module_& module);

}  // namespace stretto::python
