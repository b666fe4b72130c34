#include "stretto/transport/ring.h"

#include <algorithm>
#include <cstring>

namespace stretto {

RingWriter::RingWriter(RingWords& words, std::byte* data, std::uint64_t size)
    : words_(&words),
      data_(data),
      size_(size),
      written_(words.written.load(std::memory_order_relaxed)),
      read_(words.read.load(std::memory_order_acquire)) {}

std::uint64_t RingWriter::room(std::uint64_t wanted) {
  if (size_ - (written_ - read_) < wanted) {
    read_ = words_->read.load(std::memory_order_acquire);  // pairs with the store in RingReader::release()
  }
  return size_ - (written_ - read_);
}

void RingWriter::write(const void* from, std::uint64_t bytes) {
  const std::uint64_t at = written_ & (size_ - 1);
  const std::uint64_t first = std::min(bytes, size_ - at);
  std::memcpy(data_ + at, from, first);
  if (first < bytes) std::memcpy(data_, static_cast<const std::byte*>(from) + first, bytes - first);
  written_ += bytes;
}

void RingWriter::publish() {
  words_->written.store(written_, std::memory_order_release);  // pairs with the load in RingReader::available()
}

bool RingWriter::ask_for_room(std::uint64_t bytes) {
  words_->wants_room.store(1, std::memory_order_seq_cst);  // pairs with the load in RingReader::release()
  read_ = words_->read.load(std::memory_order_seq_cst);    // pairs with the store there
  return size_ - (written_ - read_) >= bytes;
}

RingReader::RingReader(RingWords& words, const std::byte* data, std::uint64_t size)
    : words_(&words), data_(data), size_(size), read_(words.read.load(std::memory_order_relaxed)) {}

std::uint64_t RingReader::available() const {
  return words_->written.load(std::memory_order_acquire) - read_;  // pairs with the store in RingWriter::publish()
}

void RingReader::read(void* to, std::uint64_t bytes) {
  if (to != nullptr) {
    const std::uint64_t at = read_ & (size_ - 1);
    const std::uint64_t first = std::min(bytes, size_ - at);
    std::memcpy(to, data_ + at, first);
    if (first < bytes) std::memcpy(static_cast<std::byte*>(to) + first, data_, bytes - first);
  }
  read_ += bytes;
}

bool RingReader::release() {
  words_->read.store(read_, std::memory_order_seq_cst);                       // pairs with ask_for_room(), room()
  if (words_->wants_room.load(std::memory_order_seq_cst) == 0) return false;  // pairs with ask_for_room()
  return words_->wants_room.exchange(0, std::memory_order_seq_cst) != 0;
}

}  // namespace stretto
