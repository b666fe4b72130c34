#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "stretto/transport/transport.h"

namespace stretto {

/// Bodies up to this size travel in the packet of their envelope: one message and a copy.
inline constexpr std::uint64_t kMaxInlineBody = 4096;

/// Reads the envelope of a packet: envelope, head and, if it is small, the body. Returns false where a peer has sent
/// something else: fewer or more bytes than the envelope says, or a larger head than may travel.
inline bool read_packet(std::span<const std::byte> packet, Envelope& envelope) {
  if (packet.size() < sizeof envelope) return false;
  std::memcpy(&envelope, packet.data(), sizeof envelope);
  const std::uint64_t body = envelope.body_bytes <= kMaxInlineBody ? envelope.body_bytes : 0;
  return envelope.head_bytes <= kMaxHeadBytes && packet.size() == sizeof envelope + envelope.head_bytes + body;
}

}  // namespace stretto
