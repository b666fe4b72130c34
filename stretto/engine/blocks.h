#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "stretto/base/machine/pages.h"

namespace stretto {

/// Memory for one message or scratch buffer, aligned to cache lines. Empty or owned. One of a page or more has its
/// pages to itself: a device refuses to copy what it has registered in part.
class Block {
 public:
  Block() = default;
  explicit Block(std::size_t capacity) : capacity_(capacity) {
    const std::size_t to = capacity >= kPage ? kPage : kCacheLine;
    const std::align_val_t alignment{to};
    data_ = {static_cast<std::byte*>(::operator new(round_up(capacity, to), alignment)), Free{alignment}};
  }

  std::byte* data() const { return data_.get(); }
  std::size_t capacity() const { return capacity_; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  struct Free {
    Free() : Free(std::align_val_t{kCacheLine}) {}
    explicit Free(std::align_val_t to) : alignment(to) {}
    std::align_val_t alignment;
    void operator()(std::byte* p) const { ::operator delete(p, alignment); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t capacity_ = 0;
};

/// Keeps blocks that are not in use, by powers of two, so that rounds in steady state allocate nothing.
class BlockPool {
 public:
  /// A block of at least `bytes`; an empty one for 0.
  Block take(std::size_t bytes) {
    if (bytes == 0) return {};
    auto& shelf = shelves_[shelf_of(bytes)];
    if (shelf.empty()) return Block(std::size_t{1} << shelf_of(bytes));
    Block block = std::move(shelf.back());
    shelf.pop_back();
    return block;
  }

  void give_back(Block block) {
    if (block) shelves_[shelf_of(block.capacity())].push_back(std::move(block));
  }

 private:
  static std::size_t shelf_of(std::size_t bytes) { return bytes <= 64 ? 6 : std::bit_width(bytes - 1); }

  std::array<std::vector<Block>, 64> shelves_;
};

}  // namespace stretto
