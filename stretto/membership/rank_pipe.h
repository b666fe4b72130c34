#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "stretto/base/descriptor.h"

namespace stretto {

/// A message of a rank to the process that started it.
struct RankMessage {
  enum class Kind : std::uint8_t {
    report,       ///< RankContext::report()
    cause,        ///< what it fails with
    consequence,  ///< the same, because of what happened to another rank
  };
  Kind kind = Kind::report;
  std::string text;
};

/// Writes a message to the pipe of a rank. A message that no one reads any more is dropped.
void write_message(int fd, RankMessage::Kind kind, std::string_view text);

/// The end of that pipe from which the process that started the rank reads.
class RankPipe {
 public:
  RankPipe() = default;
  /// `fd` does not block.
  explicit RankPipe(Descriptor fd) : fd_(std::move(fd)) {}

  /// −1 once there is no more to read.
  int fd() const { return fd_.get(); }
  void close() { fd_.close(); }
  /// Reads the bytes that are there, so that the rank does not block while it writes.
  void drain();
  /// The next message that has come whole.
  std::optional<RankMessage> next();

 private:
  Descriptor fd_;
  std::string bytes_;  // bytes read that are not part of a message returned by next()
};

}  // namespace stretto
