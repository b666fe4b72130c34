#pragma once

#include <cstddef>
#include <span>

#include "stretto/base/clock.h"
#include "stretto/transport/transport.h"

namespace stretto {

/// Moves messages between this rank and those of other hosts: the part of a HostsTransport that a network makes. All
/// that Transport promises of a pair of ranks holds here. It rings the rank's doorbell when poll() has something to do.
class Carrier {
 public:
  virtual ~Carrier() = default;  ///< after the engine over it; without leave() the others hear that this rank is lost

  /// As Transport::send(), of a message whose envelope has its sizes. Connects when first used.
  virtual void send(int peer, const Envelope& envelope, std::span<const std::byte> head,
                    std::span<const std::byte> body, SendToken token) = 0;
  /// As Transport::poll().
  virtual bool poll(MessageSink& sink) = 0;
  /// As Transport::poll_by().
  virtual TimePoint poll_by() const { return TimePoint::never(); }
  /// Says goodbye to all peers, and returns when their hosts have everything that was sent, or after two seconds.
  /// Nothing is sent after it.
  virtual void leave() = 0;
  /// After leave(), again and again: whether a library behind it needs this rank no longer. It may wait for all ranks
  /// to leave; where one is lost that never comes, and the library does not end in order.
  virtual bool has_ended() { return true; }
};

}  // namespace stretto
