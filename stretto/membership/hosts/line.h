#pragma once

#include <deque>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "stretto/base/clock.h"
#include "stretto/transport/hosts/network_thread.h"

namespace stretto {

/// Words of a meeting, and after it, over a connection: objects of JSON, a line each. The network's thread.
class Line : public std::enable_shared_from_this<Line> {
 public:
  explicit Line(asio::ip::tcp::socket socket);

  /// The next words; nothing: the other side has ended, or speaks something else.
  asio::awaitable<std::optional<nlohmann::json>> read();
  /// Sends words, behind those before.
  void write(const nlohmann::json& words);
  /// Once everything has been sent.
  void close();
  /// At once: a read() that waits returns nothing.
  void cancel();
  /// How long ago something has come from the other side's kernel: an acknowledgement, or words that nobody may have
  /// read yet.
  Duration since_heard();

 private:
  asio::awaitable<void> send();

  asio::ip::tcp::socket socket_;
  std::string read_;  // and not yet returned
  std::deque<std::string> to_send_;
  bool sending_ = false;
  bool closes_ = false;
};

}  // namespace stretto
