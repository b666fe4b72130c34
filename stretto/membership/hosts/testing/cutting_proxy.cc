#include "stretto/membership/hosts/testing/cutting_proxy.h"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/read_until.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <limits>
#include <string>
#include <utility>

namespace stretto {

using asio::ip::tcp;

CuttingProxy::CuttingProxy(std::uint16_t master, std::function<int()> lines)
    : master_(asio::ip::address_v4::loopback(), master), lines_(std::move(lines)) {
  asio::co_spawn(
      network_.io(), [this] { return listen(); }, asio::detached);
}

CuttingProxy::~CuttingProxy() {
  network_.run([this] {
    asio::error_code ignored;
    acceptor_.close(ignored);
    for (const Socket& socket : sockets_) socket->close(ignored);
  });
  network_.run([] {});  // what waited for them is over
}

asio::awaitable<void> CuttingProxy::listen() {
  for (;;) {
    asio::error_code error;
    const auto client = std::make_shared<tcp::socket>(network_.io());
    const auto server = std::make_shared<tcp::socket>(network_.io());
    co_await acceptor_.async_accept(*client, asio::redirect_error(asio::use_awaitable, error));
    if (!error) server->connect(master_, error);
    if (error) co_return;
    ++connections_;
    sockets_.push_back(client);
    sockets_.push_back(server);
    const int lines = lines_();
    asio::co_spawn(
        network_.io(), [this, client, server] { return pass_on(client, server, std::numeric_limits<int>::max()); },
        asio::detached);
    asio::co_spawn(
        network_.io(), [this, client, server, lines] { return pass_on(server, client, lines); }, asio::detached);
  }
}

asio::awaitable<void> CuttingProxy::pass_on(Socket from, Socket to, int lines) {
  asio::error_code error;
  std::string buffer;
  for (; lines > 0; --lines) {
    // A hello has no line's end, and goes with the first line.
    const std::size_t length = co_await asio::async_read_until(*from, asio::dynamic_buffer(buffer), '\n',
                                                               asio::redirect_error(asio::use_awaitable, error));
    if (error) break;
    co_await asio::async_write(*to, asio::buffer(buffer, length), asio::redirect_error(asio::use_awaitable, error));
    if (error) break;
    buffer.erase(0, length);
  }
  const bool resets = lines == 0;  // else one of the two has closed it
  for (const Socket& socket : {from, to}) {
    socket->set_option(asio::socket_base::linger(resets, 0), error);
    socket->close(error);
  }
}

}  // namespace stretto
