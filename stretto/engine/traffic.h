#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace stretto {

/// The messages that a rank has sent to others. Bytes that ranks move through memory that they share are no message and
/// not in it.
struct Traffic {
  std::uint64_t messages = 0;    ///< with a body or without
  std::uint64_t body_bytes = 0;  ///< what their bodies carry
  std::uint64_t bytes = 0;       ///< of their bodies, heads and envelopes

  /// Adds what another rank has sent.
  void add(const Traffic& other) {
    messages += other.messages;
    body_bytes += other.body_bytes;
    bytes += other.bytes;
  }
  /// The traffic since `earlier`.
  Traffic since(const Traffic& earlier) const {
    return {messages - earlier.messages, body_bytes - earlier.body_bytes, bytes - earlier.bytes};
  }
  friend bool operator==(const Traffic&, const Traffic&) = default;  ///< all are equal
};

/// \cond inner
/// Counts what one thread at a time sends, for any thread to read.
class TrafficCounter {
 public:
  /// Another message. The thread that steps the engine.
  void add(std::size_t overhead, std::size_t body) {
    increase(messages_, 1);
    increase(body_bytes_, body);
    increase(bytes_, overhead + body);
  }
  /// Any thread; one that does not step the engine may find a message in one number that is not yet in the next.
  Traffic read() const {
    return {messages_.load(std::memory_order_relaxed), body_bytes_.load(std::memory_order_relaxed),
            bytes_.load(std::memory_order_relaxed)};
  }

 private:
  using Number = std::atomic<std::uint64_t>;  // of one writer, so that a load and a store do
  static void increase(Number& number, std::uint64_t by) {
    number.store(number.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }

  Number messages_{0}, body_bytes_{0}, bytes_{0};
};
/// \endcond

}  // namespace stretto
