#include "stretto/transport/hosts/hosts.h"

#include <algorithm>

namespace stretto {

void HostsTransport::send(int peer, Envelope envelope, std::span<const std::byte> head, std::span<const std::byte> body,
                          SendToken token) {
  if (members().host_of(peer) == members().host_of(rank())) return here_.send(peer, envelope, head, body, token);
  STRETTO_CHECK(head.size() <= kMaxHeadBytes, "head of ", head.size(), " bytes");
  STRETTO_CHECK(body.data() != nullptr || body.empty(), "body of ", body.size(), " bytes without address");
  envelope.head_bytes = static_cast<std::uint32_t>(head.size());
  envelope.body_bytes = body.size();
  between_.send(peer, envelope, head, body, token);
}

bool HostsTransport::poll(MessageSink& sink) {
  const bool moved = here_.poll(sink);
  return between_.poll(sink) || moved;
}

TimePoint HostsTransport::poll_by() const {
  return std::min(here_.poll_by(), between_.poll_by());
}

}  // namespace stretto
