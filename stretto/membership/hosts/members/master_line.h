#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/membership/hosts/line.h"
#include "stretto/membership/hosts/members/link_words.h"
#include "stretto/transport/hosts/hello.h"
#include "stretto/transport/hosts/network_thread.h"

namespace stretto {

class MasterLine;

/// Where a process finds the master of its job, and by whom it hears it: all of these on a thread of the line's.
struct MasterLineOptions {
  std::string host;  ///< an address or a name; empty: this host, at whichever of its addresses the master listens
  std::uint16_t port = 0;
  /// Looks the address of the newest master up, and waits for the answer, where several follow one another: while none
  /// is heard, again and again. Empty: each is at the host and port above.
  std::function<std::optional<std::pair<std::string, std::uint16_t>>()> find = {};
  Token token{};
  std::function<void(MasterLine& line, const MasterWords& words)> hear;  ///< each word of the master's
  std::function<void(const Error& why)> ended;                           ///< there will be none any more
  /// The master's host is silent for `limit`, as the master says it (Line::is_silent()); or not any more. May be empty.
  std::function<void(bool is_silent, Duration limit)> silent = {};
  /// The connection has ended, and others are tried. May be empty.
  std::function<void()> over = {};
  /// While the master is silent, and where the connection has ended, others are tried; where nobody listens, for as
  /// long as another master may come. One has been made: nothing that was said before may be known there. Empty: none
  /// is tried.
  std::function<void(MasterLine& line)> anew = {};
};

/// A process's connection to the master of its job, with a thread that hears it.
class MasterLine {
 public:
  /// Connects. Throws Failure (Errc::unavailable) where the master cannot be reached.
  explicit MasterLine(MasterLineOptions options);
  ~MasterLine();  ///< nobody of the options is called any more
  MasterLine(const MasterLine&) = delete;
  MasterLine& operator=(const MasterLine&) = delete;

  /// The master's address. On the line's thread.
  const asio::ip::tcp::endpoint& at() const { return at_; }
  /// Whether the master can be reached from its host alone.
  bool is_on_one_host() const { return is_loopback_ && !has_hosts_.load(std::memory_order_relaxed); }
  /// After how long nothing from the master is a silence, by its first word; zero: never. Any thread.
  Duration limit() const { return limit_.load(std::memory_order_relaxed); }
  /// For how long another master may come to the address where this one is gone, likewise.
  Duration patience() const { return patience_.load(std::memory_order_relaxed); }
  /// Any thread.
  void write(const ProcessWords& words);

 private:
  asio::awaitable<void> listen(std::shared_ptr<Line> line);
  asio::awaitable<void> keep_time();
  void try_again();
  asio::awaitable<void> reach_again();
  /// No master listens there, and none may come any more.
  bool is_gone_for_good();
  void end(const Error& why);

  const MasterLineOptions options_;
  const SteadyClock clock_;
  asio::ip::tcp::endpoint at_;
  bool is_loopback_ = false;  // fixed after construction: masters of a job are all at such addresses, or none is
  std::shared_ptr<Line> line_;
  std::atomic<Duration> limit_{Duration(0)};     // from the master's first beat
  std::atomic<Duration> patience_{Duration(0)};  // likewise
  std::atomic<bool> has_hosts_{false};           // likewise
  std::optional<TimePoint> gone_since_;          // no master listens there
  bool was_heard_ = false;                       // a master, ever
  TimePoint heard_at_;                           // over this connection
  bool silent_ = false, line_is_over_ = false, ended_ = false;
  std::shared_ptr<asio::ip::tcp::socket> reaching_;  // by which another connection is tried
  NetworkThread network_;                            // ends first
};

}  // namespace stretto
