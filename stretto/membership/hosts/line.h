#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/transport/hosts/network_thread.h"

namespace stretto {

/// Words of a meeting, and after it, over a connection (peer_words.h), a line each. The network's thread.
class Line : public std::enable_shared_from_this<Line> {
 public:
  static constexpr std::size_t kMostBytes = 16 << 20;  ///< of a line that is read

  explicit Line(asio::ip::tcp::socket socket);

  /// The next words. Errc::lost_peer: the other side has ended. Errc::bad_input: what has come cannot be read, and the
  /// line is cancelled. `limits`: those of Words::decoded().
  template <class Words, class... Limits>
  asio::awaitable<Result<Words>> read(Limits... limits) {
    const auto self = shared_from_this();
    const auto line = co_await read_line(Words::kName);
    if (!line) co_return line.error();
    auto words = Words::decoded(*line, limits...);
    if (!words) cancel();
    co_return words;
  }
  /// Sends words, behind those before.
  template <class Words>
  void write(const Words& words) {
    write_line(words.encoded());
  }
  /// Once everything has been sent.
  void close();
  /// At once: for a read() that waits the other side has ended.
  void cancel();
  /// How long ago something has come from the other side's kernel: an acknowledgement, or words that nobody may have
  /// read yet.
  Duration since_heard();
  /// Whether the other side has closed the connection, as a process that ends does: not its or this host's kernel, or
  /// something between, which may have given it up while both are there.
  bool is_closed_there() const { return closed_there_; }
  /// Whether the other host is silent: nothing has come from its kernel for `limit`, or for so long that has not
  /// acknowledged what this one sends again and again, since one way between them is dead. Requires: words are written,
  /// and this is called, ten times within the limit.
  bool is_silent(TimePoint now, Duration limit);

 private:
  asio::awaitable<Result<std::string>> read_line(const char* kind);
  void write_line(std::string line);
  asio::awaitable<void> send();

  asio::ip::tcp::socket socket_;
  std::string read_;  // and not yet returned
  std::deque<std::string> to_send_;
  std::optional<TimePoint> repeats_since_;  // the kernel, what has not been acknowledged
  bool sending_ = false;
  bool closes_ = false;
  bool closed_there_ = false;
  bool was_reset_ = false;  // which the kernel says once: to a reader, or to a writer
};

}  // namespace stretto
