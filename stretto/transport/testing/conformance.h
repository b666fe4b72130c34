#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "stretto/base/function_ref.h"
#include "stretto/transport/transport.h"

namespace stretto {

/// A test that every transport must pass: a program that each rank of a job runs over its transport, in a job of its
/// own. Throws std::runtime_error if the transport did wrong or a minute has passed. Written against transport.h alone.
struct ConformanceCase {
  std::string name;
  std::function<void(Transport&)> run;
};
std::span<const ConformanceCase> conformance_cases();

/// One rank of a test: sends and expects messages whose bytes are a function of sender, receiver and number, and checks
/// all that transport.h promises about them.
class TestRank : public MessageSink {
 public:
  explicit TestRank(Transport& transport);

  /// Posts the next message to `peer`.
  void send(int peer, std::size_t head_bytes, std::size_t body_bytes);

  /// Transport::poll() into this.
  bool poll();
  /// Drives the transport, asleep while there is nothing to do, until `done()`; throws after a minute.
  void wait(FunctionRef<bool()> done);
  /// Until nothing that was sent is on its way out.
  void wait_for_sends();

  std::uint64_t received(int peer) const { return in_[static_cast<std::size_t>(peer)].count; }
  std::uint64_t received() const;
  bool in_body(int peer) const { return in_[static_cast<std::size_t>(peer)].open; }
  std::uint64_t unsent() const { return unsent_; }

  /// Peers that were lost, in the order in which it was said, with the message.
  std::vector<std::pair<int, std::string>> lost_peers;
  /// Peers that have left, in the order in which it was said.
  std::vector<int> left_peers;
  /// Throw bodies away instead of checking them.
  bool discard = false;
  /// Called when a message is complete; may send.
  std::function<void(int peer, const Envelope& envelope)> on_message;

  std::byte* begin(int peer, const Envelope& envelope, std::span<const std::byte> head) override;
  void end(int peer) override;
  void sent(SendToken token) override;
  void lost(int peer, const Error& reason) override;
  void left(int peer) override;

 private:
  struct Incoming {
    std::uint64_t count = 0;
    bool open = false;
    bool discarded = false;
    bool gone = false;  // lost, or left
    Envelope envelope;
    std::vector<std::byte> body;
  };
  struct OutgoingMessages {
    std::uint64_t count = 0;
    std::vector<std::vector<std::byte>> bodies;
    std::vector<bool> reported;
  };

  Transport& transport_;
  std::vector<Incoming> in_;
  std::vector<OutgoingMessages> out_;
  std::uint64_t unsent_ = 0;
  bool polling_ = false;
};

}  // namespace stretto
