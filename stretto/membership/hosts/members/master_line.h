#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "stretto/membership/hosts/line.h"
#include "stretto/membership/hosts/members/link_words.h"
#include "stretto/transport/hosts/hello.h"
#include "stretto/transport/hosts/network_thread.h"

namespace stretto {

/// A process's connection to the master of its job, with a thread that hears it.
class MasterLine {
 public:
  using Hear = std::function<void(MasterLine& line, const MasterWords& words)>;
  /// Connects. `hear` is called with each word of the master's, `ended` once there will be none: on a
  /// thread of this object. Throws Failure (Errc::unavailable) where the master cannot be reached.
  MasterLine(const std::string& host, std::uint16_t port, const Token& token, Hear hear,
             std::function<void(const Error&)> ended);
  ~MasterLine();  ///< neither is called any more
  MasterLine(const MasterLine&) = delete;
  MasterLine& operator=(const MasterLine&) = delete;

  /// Any thread.
  void write(const ProcessWords& words);

 private:
  asio::awaitable<void> listen();

  const Hear hear_;
  const std::function<void(const Error&)> ended_;
  std::shared_ptr<Line> line_;
  NetworkThread network_;  // ends first
};

}  // namespace stretto
