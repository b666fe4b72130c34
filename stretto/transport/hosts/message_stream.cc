#include "stretto/transport/hosts/message_stream.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace stretto {

static_assert(std::is_trivially_copyable_v<Envelope> && sizeof(Envelope) == 40, "envelopes travel as they are");

void OutgoingMessage::add_to(std::vector<iovec>& pieces) const {
  std::uint64_t skip = written;
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(&envelope, 1)), head, body};
  for (const auto part : parts) {
    const std::uint64_t skipped = std::min<std::uint64_t>(skip, part.size());
    skip -= skipped;
    if (skipped == part.size()) continue;
    pieces.push_back({const_cast<std::byte*>(part.data() + skipped), part.size() - skipped});
  }
}

std::span<std::byte> OutgoingMessage::write_to(std::span<std::byte> room) {
  thread_local std::vector<iovec> pieces;
  pieces.clear();
  add_to(pieces);
  for (const iovec& piece : pieces) {
    const std::size_t bytes = std::min(piece.iov_len, room.size());
    if (bytes > 0) std::memcpy(room.data(), piece.iov_base, bytes);
    room = room.subspan(bytes);
    written += bytes;
  }
  return room;
}

bool IncomingMessages::deliver(std::span<const std::byte>& bytes, MessageSink& sink) {
  while (true) {
    if (in_body) {
      const std::size_t of_body = std::min<std::uint64_t>(bytes.size(), body_left);
      if (body != nullptr && of_body > 0) body = std::copy_n(bytes.data(), of_body, body);
      bytes = bytes.subspan(of_body);
      body_left -= of_body;
      if (body_left > 0) return true;
      in_body = false;
      sink.end(peer);
      continue;
    }
    if (bytes.size() < sizeof(Envelope)) return true;
    Envelope envelope;
    std::memcpy(&envelope, bytes.data(), sizeof envelope);
    if (goodbye) return false;
    if (envelope.head_bytes == kGoodbye) {
      goodbye = envelope;
      bytes = bytes.subspan(sizeof envelope);
      continue;
    }
    if (envelope.head_bytes > kMaxHeadBytes) return false;
    if (bytes.size() < sizeof envelope + envelope.head_bytes) return true;
    const auto head = bytes.subspan(sizeof envelope, envelope.head_bytes);
    bytes = bytes.subspan(sizeof envelope + envelope.head_bytes);
    in_body = true;
    body_left = envelope.body_bytes;
    body = sink.begin(peer, envelope, head);
  }
}

}  // namespace stretto
