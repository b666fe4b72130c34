#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "stretto/transport/hosts/network_thread.h"

namespace stretto {

/// Stands between processes and a master, and resets each connection after so many of the master's lines: what comes
/// then is lost. To both it looks like something between them that has forgotten the connection.
class CuttingProxy {
 public:
  /// `master`: its port on this host. `lines`: of the next connection; called on the proxy's thread.
  CuttingProxy(std::uint16_t master, std::function<int()> lines);
  ~CuttingProxy();
  CuttingProxy(const CuttingProxy&) = delete;
  CuttingProxy& operator=(const CuttingProxy&) = delete;

  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  int connections() const { return connections_; }

 private:
  using Socket = std::shared_ptr<asio::ip::tcp::socket>;

  asio::awaitable<void> listen();
  asio::awaitable<void> pass_on(Socket from, Socket to, int lines);

  const asio::ip::tcp::endpoint master_;
  const std::function<int()> lines_;
  NetworkThread network_;
  asio::ip::tcp::acceptor acceptor_{network_.io(), {asio::ip::address_v4::loopback(), 0}};
  std::vector<Socket> sockets_;
  std::atomic<int> connections_{0};
};

}  // namespace stretto
