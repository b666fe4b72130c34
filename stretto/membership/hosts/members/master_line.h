#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "stretto/membership/hosts/line.h"
#include "stretto/membership/hosts/members/link_words.h"
#include "stretto/transport/hosts/hello.h"
#include "stretto/transport/hosts/network_thread.h"

namespace stretto {

/// A process's connection to the master of its job, with a thread that hears it.
class MasterLine {
 public:
  using Hear = std::function<void(MasterLine& line, const MasterWords& words)>;
  /// Connects. `host`: an address or a name; empty: this host, at whichever of its addresses the master listens. `hear`
  /// is called with each word of the master's, `ended` once there will be none: on a thread of this object. Throws
  /// Failure (Errc::unavailable) where the master cannot be reached.
  MasterLine(const std::string& host, std::uint16_t port, const Token& token, Hear hear,
             std::function<void(const Error&)> ended);
  ~MasterLine();  ///< neither is called any more
  MasterLine(const MasterLine&) = delete;
  MasterLine& operator=(const MasterLine&) = delete;

  /// The master's address, as digits.
  std::string address() const { return at_.address().to_string(); }
  /// Whether that can be reached from the master's host alone.
  bool is_on_loopback() const { return at_.address().is_loopback(); }
  /// Any thread.
  void write(const ProcessWords& words);

 private:
  asio::awaitable<void> listen();

  const Hear hear_;
  const std::function<void(const Error&)> ended_;
  asio::ip::tcp::endpoint at_;
  std::shared_ptr<Line> line_;
  NetworkThread network_;  // ends first
};

}  // namespace stretto
