#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "stretto/transport/transport.h"

namespace stretto {

/// In the place of the bytes of a head: no message, but a goodbye, behind which nothing comes.
inline constexpr std::uint32_t kGoodbye = std::numeric_limits<std::uint32_t>::max();

/// A message that has not left, or not whole: envelope, head and body, one behind the other.
struct OutgoingMessage {
  Envelope envelope;
  std::span<const std::byte> head, body;
  SendToken token = kNoToken;
  std::uint64_t written = 0;  ///< bytes of the three together
  std::vector<std::byte> head_kept = {};

  std::uint64_t bytes() const { return sizeof envelope + head.size() + body.size(); }
  void keep_head() {
    head_kept.assign(head.begin(), head.end());
    head = head_kept;
  }
  /// Adds what is left of it.
  void add_to(std::vector<iovec>& pieces) const;
  /// Copies what is left of it, as far as there is room, and counts that as written. Returns what is left of the room.
  std::span<std::byte> write_to(std::span<std::byte> room);
};

/// The messages of a peer, as they come one behind the other.
struct IncomingMessages {
  const int peer;
  bool in_body = false;
  std::byte* body = nullptr;  ///< where the rest of it goes, or null
  std::uint64_t body_left = 0;
  std::optional<Envelope> goodbye = {};  ///< has come

  /// Hands on what `bytes` begin with, and leaves there what is no whole head. Returns false where that is no message.
  bool deliver(std::span<const std::byte>& bytes, MessageSink& sink);
};

}  // namespace stretto
