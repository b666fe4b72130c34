#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "stretto/base/clock.h"
#include "stretto/base/doorbell.h"
#include "stretto/base/error.h"
#include "stretto/transport/members.h"
#include "stretto/transport/shared_arena.h"

namespace stretto {

/// The number of a run of a collective. Starts at 0 and never wraps.
using Round = std::uint64_t;

/// The fixed part of every message, in front of head and body. `channel` only routes within a round.
struct Envelope {
  std::uint64_t description = 0;  ///< hash of the description of the sender's collective (base/description.h)
  Round round = 0;                ///< which run of the collective
  std::uint64_t note = 0;         ///< a word of the collective's own, e.g. the policy of the round
  std::uint64_t body_bytes = 0;   ///< payload that follows
  std::uint32_t head_bytes = 0;   ///< small metadata that follows, at most kMaxHeadBytes
  std::uint16_t collective = 0;   ///< registered in the same order on every rank
  std::uint16_t channel = 0;      ///< which receive of the schedule, or which control message
};

/// The largest head of a message.
inline constexpr std::size_t kMaxHeadBytes = 8192;

/// Names a posted send; chosen by the caller of send().
using SendToken = std::uint64_t;
/// The token of a send whose completion is not reported.
inline constexpr SendToken kNoToken = ~SendToken{0};

/// Receives the messages and reports of a transport. Called inside Transport::poll() only; may call Transport::send(),
/// not poll().
class MessageSink {
 public:
  virtual ~MessageSink() = default;  ///< outside poll()

  /// A message has begun. Returns where its body goes (`envelope.body_bytes`, valid until the matching end()),
  /// or null to throw the body away or if the bodies of this transport have no bytes. `head` is valid inside
  /// the call. At most one message of a peer is between begin() and end().
  virtual std::byte* begin(int peer, const Envelope& envelope, std::span<const std::byte> head) = 0;
  /// The body is complete.
  virtual void end(int peer) = 0;
  /// A send has left: its body may be reused. Exactly once for each token but kNoToken, also when the peer is lost.
  virtual void sent(SendToken token) = 0;
  /// The peer is gone and nothing more will come from it. Messages that it had sent whole have been delivered; one that
  /// has begun and not ended never ends. At most once a peer. Not called for one that left in order.
  virtual void lost(int peer, const Error& reason) = 0;
  /// The peer has left in order: its rank's function has returned 0. Nothing more will come from it, as after lost().
  /// At most once a peer, and not beside lost(). Only where the transport hears of it (shm).
  virtual void left(int /*peer*/) {}
};

/// Moves messages between the ranks of a job. Messages of one pair of ranks keep their order; those of
/// different pairs may overtake one another. Driven by one thread at a time.
class Transport {
 public:
  virtual ~Transport() = default;  ///< after the engine over it

  virtual int rank() const = 0;  ///< this rank's number, 0 … size() − 1
  virtual int size() const = 0;  ///< ranks of the job

  /// Posts a message. `head` is copied before the call returns; `body` must stay until MessageSink::sent() of `token`,
  /// which never comes before the next poll(). Sends complete in any order. A body without address has a length only
  /// (simulation). To a peer that is lost or has left: completes and goes nowhere. Requires: peer ≠ rank(); head.size()
  /// ≤ kMaxHeadBytes. `envelope`'s sizes are filled in here.
  virtual void send(int peer, Envelope envelope, std::span<const std::byte> head, std::span<const std::byte> body,
                    SendToken token) = 0;

  /// Moves as many bytes as it can without waiting, and reports messages and sends to `sink`. Returns whether anything
  /// moved.
  virtual bool poll(MessageSink& sink) = 0;

  /// Latest time at which poll() must be called again although the doorbell has not rung.
  virtual TimePoint poll_by() const { return TimePoint::never(); }

  /// False in simulations without payloads: bodies have a length but no bytes.
  virtual bool carries_payload() const { return true; }

  /// The doorbell of this rank, which this transport rings when poll() has something to do.
  virtual Doorbell& doorbell() = 0;

  /// The ranks of the job and their hosts: the same on every rank.
  virtual const Members& members() const = 0;
  /// The host of this rank. The ranks of every host share memory, or those of none do.
  Host host() { return {members().on(members().host_of(rank())), arena()}; }

  /// "shm", "hosts", "simulated".
  virtual const char* name() const = 0;
  /// The way of messages between the hosts of the job, and why, in words; empty: there is one host, or one way.
  virtual std::string between_hosts() const { return {}; }

 private:
  virtual SharedArena* arena() { return nullptr; }
};

}  // namespace stretto
