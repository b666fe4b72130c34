#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace stretto {

/// The words of one ring. All zero is a valid, empty ring, so they may lie in fresh shared memory.
struct RingWords {
  /// Bytes ever published. Stored by the writer (release), loaded by the reader (acquire): the bytes before it are
  /// there.
  alignas(64) std::atomic<std::uint64_t> written{0};
  /// The writer waits for room. Set by the writer, then it looks at `read`; the reader stores `read`, then looks
  /// here. All four are sequentially consistent: one of the two sees the other.
  std::atomic<std::uint32_t> wants_room{0};
  /// Bytes ever consumed. Stored by the reader, loaded by the writer: the bytes before it may be overwritten.
  alignas(64) std::atomic<std::uint64_t> read{0};
};

/// Writes a stream of bytes into a ring that one other thread or process reads. One thread.
class RingWriter {
 public:
  /// `size` is a power of two; the words and the `size` bytes at `data` must outlive the writer.
  RingWriter(RingWords& words, std::byte* data, std::uint64_t size);

  /// Bytes that can be written now. Reads the reader's position only if the last one known leaves less than `wanted`.
  std::uint64_t room(std::uint64_t wanted);

  /// Appends bytes; the reader does not see them before publish(). Requires: bytes ≤ room.
  void write(const void* from, std::uint64_t bytes);
  void publish();

  /// Asks the reader to say when it has made room, unless there is room for `bytes` already: then returns true.
  bool ask_for_room(std::uint64_t bytes);

 private:
  RingWords* words_;
  std::byte* data_;
  std::uint64_t size_;
  std::uint64_t written_;  // by us, published or not
  std::uint64_t read_;     // the reader's position as last seen
};

/// Reads the stream of a RingWriter. One thread.
class RingReader {
 public:
  RingReader(RingWords& words, const std::byte* data, std::uint64_t size);

  /// Bytes published and not read.
  std::uint64_t available() const;

  /// Takes bytes out, to `to` or, if null, to nowhere. Their room is not free before release().
  /// Requires: bytes ≤ available().
  void read(void* to, std::uint64_t bytes);

  /// Frees the room of all that was read. Returns whether the writer asked to be told; it is told once.
  bool release();

 private:
  RingWords* words_;
  const std::byte* data_;
  std::uint64_t size_;
  std::uint64_t read_;
};

}  // namespace stretto
