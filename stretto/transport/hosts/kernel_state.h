#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <optional>

namespace stretto {

/// How the kernel sees a connection; nothing: there is none any more.
inline std::optional<tcp_info> kernel_state_of(int socket) {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return std::nullopt;
  return info;
}

/// Whether the kernel has given the connection up, as after the peer has: what was not sent never is.
inline bool is_given_up(int socket) {
  const auto state = kernel_state_of(socket);
  return !state || state->tcpi_state == TCP_CLOSE;
}

/// Whether the kernel sends again and again what the other side does not acknowledge. Where there is no route it has
/// sent nothing yet, and probes, as it does where the other side has no room; but that side acknowledges probes.
inline bool repeats(int socket) {
  const auto state = kernel_state_of(socket);
  return state && (state->tcpi_retransmits > 0 || state->tcpi_probes > 0);
}

}  // namespace stretto
