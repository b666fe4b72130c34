#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace stretto {

/// The shorter form that bodies of a collective's messages have on their way. An engine calls it from its thread, for
/// messages with a body alone.
class BodyCodec {
 public:
  virtual ~BodyCodec() = default;
  /// A message for `peer` is sent now. Writes the shorter form of its body to `to`, which has room for as much as the
  /// body, and returns its bytes; 0: the body goes as it is. Where transports carry no payload `body` has no address,
  /// and goes as it is.
  virtual std::size_t encode(int peer, std::uint16_t channel, std::span<const std::byte> body, std::byte* to) = 0;
  /// Whether decode() is to see each body that comes, in the order in which `peer` has sent them: also those that are
  /// as they were, and those that come too late for their round. Else it sees the shorter ones alone that are in time.
  virtual bool sees_all() const = 0;
  /// A body has come whole. Writes what it stands for to `to`, which has the size that it had; `to` is empty where it
  /// is that itself, or nobody wants it any more. False: it is malformed.
  [[nodiscard]] virtual bool decode(int peer, std::uint16_t channel, std::span<const std::byte> body,
                                    std::span<std::byte> to) = 0;
};

}  // namespace stretto
