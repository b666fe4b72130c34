#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "stretto/base/clock.h"
#include "stretto/base/doorbell.h"
#include "stretto/base/error.h"
#include "stretto/transport/shared_arena.h"

namespace stretto {

/// A membership epoch and a round; both start at 0 and never wrap.
using Epoch = std::uint64_t;
using Round = std::uint64_t;

/// What stands before every message. `channel` only routes within a round; it identifies nothing else.
struct Envelope {
  Epoch epoch = 0;
  Round round = 0;
  std::uint64_t note = 0;        ///< a word of the collective's own, e.g. the policy of the round
  std::uint64_t body_bytes = 0;  ///< payload that follows
  std::uint32_t head_bytes = 0;  ///< small metadata that follows, at most kMaxHeadBytes
  std::uint16_t collective = 0;  ///< registered in the same order on every rank
  std::uint16_t channel = 0;     ///< which receive of the schedule, or which control message
};

inline constexpr std::size_t kMaxHeadBytes = 8192;

/// A send that has been posted, in the words of whoever posted it.
using SendToken = std::uint64_t;
/// A send nobody wants to hear of again.
inline constexpr SendToken kNoToken = ~SendToken{0};

/// Receives what a transport delivers. Called inside Transport::poll() only; may call Transport::send(), not poll().
class MessageSink {
 public:
  virtual ~MessageSink() = default;

  /// A message has begun. Returns where its body goes (`envelope.body_bytes`, valid until the matching end()),
  /// or null to throw the body away or if the bodies of this transport have no bytes. `head` is valid inside
  /// the call. At most one message of a peer is between begin() and end().
  virtual std::byte* begin(int peer, const Envelope& envelope, std::span<const std::byte> head) = 0;
  /// The body is complete.
  virtual void end(int peer) = 0;
  /// A send has left: its body may be reused. Exactly once for each token but kNoToken, also when the peer is lost.
  virtual void sent(SendToken token) = 0;
  /// The peer is gone and nothing more will come from it: what it had sent whole has been delivered, and a message
  /// of it that has begun and not ended never ends. At most once a peer. Not called for one that left in order.
  virtual void lost(int peer, const Error& reason) = 0;
};

/// What a waiting thread has to look at.
class Pollable {
 public:
  virtual ~Pollable() = default;
  /// Latest time at which poll() must be called again although the doorbell has not rung.
  virtual TimePoint poll_by() const { return TimePoint::never(); }
};

/// Moves messages between the ranks of a job. Messages of one pair of ranks keep their order; those of
/// different pairs may overtake one another. Driven by one thread at a time.
class Transport : public Pollable {
 public:
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Posts a message. `head` is copied before the call returns; `body` must stay until MessageSink::sent(token),
  /// which never comes before the next poll(). Sends complete in any order. A body without address has a length only
  /// (simulation). To a peer that is lost or has left: completes and goes nowhere. Requires: peer ≠ rank(); head.size()
  /// ≤ kMaxHeadBytes. `envelope`'s sizes are filled in here.
  virtual void send(int peer, Envelope envelope, std::span<const std::byte> head, std::span<const std::byte> body,
                    SendToken token) = 0;

  /// Moves what can be moved without waiting and reports it to `sink`. Returns whether anything moved.
  virtual bool poll(MessageSink& sink) = 0;

  /// False in simulations without payloads: bodies have a length but no bytes.
  virtual bool carries_payload() const { return true; }

  /// The doorbell of this rank, which this transport rings when poll() has something to do.
  virtual Doorbell& doorbell() = 0;

  /// Memory that all ranks of the job share, or null where they do not.
  virtual SharedArena* arena() { return nullptr; }

  /// "shm", "mpi", "simulated".
  virtual const char* name() const = 0;
};

}  // namespace stretto
