#pragma once

#include <asio/read_until.hpp>
#include <asio/write.hpp>
#include <string>
#include <utility>

#include "stretto/transport/hosts/hello.h"
#include "stretto/transport/hosts/network_thread.h"

namespace stretto {

/// A process that sends another one lines of a test. Each call blocks.
class RawPeer {
 public:
  explicit RawPeer(asio::ip::tcp::socket socket) : socket_(std::move(socket)) {}
  /// Says hello at a door.
  RawPeer(asio::io_context& io, const asio::ip::tcp::endpoint& door, const Hello& hello, const Token& token)
      : socket_(io) {
    socket_.connect(door);
    const Hello::Bytes bytes = hello.encoded(token);
    asio::write(socket_, asio::buffer(bytes));
  }

  void send(const std::string& line) {
    asio::error_code ended;
    asio::write(socket_, asio::buffer(line + '\n'), ended);
  }
  /// The next line; empty: the other side has ended.
  std::string hear() {
    asio::error_code ended;
    const std::size_t length = asio::read_until(socket_, asio::dynamic_buffer(heard_), '\n', ended);
    if (ended) return {};
    std::string line = heard_.substr(0, length - 1);
    heard_.erase(0, length);
    return line;
  }

 private:
  asio::ip::tcp::socket socket_;
  std::string heard_;
};

}  // namespace stretto
