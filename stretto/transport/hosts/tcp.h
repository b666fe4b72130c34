#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stretto/base/doorbell.h"
#include "stretto/transport/hosts/carrier.h"
#include "stretto/transport/hosts/door.h"
#include "stretto/transport/hosts/hello.h"
#include "stretto/transport/hosts/link_watch.h"
#include "stretto/transport/hosts/network_thread.h"

namespace stretto {

/// Messages by TCP. A pair of ranks has one connection for each side that has begun one: a side sends on the first that
/// it has, for ever, and reads both, so that both may begin at once.
///
/// Nothing is asked before it is sent. Envelope, head and body leave by one system call as far as the kernel has room,
/// and a body is read into where the sink wants it. Where there is nothing to read, or no room, the network's thread
/// waits for it, and rings.
///
/// A peer is lost when a connection ends without a goodbye, or cannot be made.
class TcpCarrier final : public Carrier {
 public:
  /// `addresses`: where each rank listens; those of this host are not asked. `doorbell` outlives it. Connections for
  /// messages that come to `door` are taken from now on.
  TcpCarrier(NetworkThread& network, Door& door, const Hello& as, const Token& token,
             std::vector<asio::ip::tcp::endpoint> addresses, const Doorbell& doorbell);
  ~TcpCarrier() override;

  void send(int peer, const Envelope& envelope, std::span<const std::byte> head, std::span<const std::byte> body,
            SendToken token) override;
  bool poll(MessageSink& sink) override;
  TimePoint poll_by() const override;
  void leave() override;
  /// The peer is gone, by news that have come another way; what it has sent is delivered first. Any thread.
  void lose(int peer, const Error& why);
  /// From now on each poll sees whom this rank misses. Before the first one.
  void watch(MissedPeers missed) {
    if (missed) watch_.emplace(network_, addresses_, std::move(missed));
  }

 private:
  struct Connection;
  struct Peer;
  struct Waits;
  class Inbox;

  Peer& peer_of(int rank) { return *peers_[static_cast<std::size_t>(rank)]; }
  static asio::awaitable<void> reach(asio::io_context& io, std::shared_ptr<Inbox> inbox, asio::ip::tcp::endpoint at,
                                     Hello hello, Token token);
  void connect(int to);
  void adopt(int from, asio::ip::tcp::socket socket);
  bool works(int rank) const;
  bool write(Peer& peer);
  bool read(Connection& connection, MessageSink& sink);
  void end(Connection& connection, const std::string& how, MessageSink& sink);
  bool tell_lost(int rank, const Error& why, MessageSink& sink);
  void give_up(Peer& peer);
  void wait_to_read(Connection& connection);
  void wait_to_write(Connection& connection);

  NetworkThread& network_;
  Door& door_;
  const Hello as_;
  const Token token_;
  const std::vector<asio::ip::tcp::endpoint> addresses_;
  const std::shared_ptr<Inbox> inbox_;                    // what the network's thread leaves
  std::vector<std::unique_ptr<Peer>> peers_;              // by rank
  std::vector<std::unique_ptr<Connection>> connections_;  // all that are open
  std::vector<SendToken> sent_, reporting_;               // complete, to be reported by the next poll()
  std::optional<LinkWatch> watch_;
};

}  // namespace stretto
