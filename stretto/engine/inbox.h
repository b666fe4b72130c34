#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/engine/blocks.h"
#include "stretto/observe/round_header.h"
#include "stretto/schedule/schedule.h"
#include "stretto/transport/transport.h"

namespace stretto {

/// The number of a collective on its engine, in the order in which they were made.
using CollectiveId = std::uint16_t;

/// How much of one peer may wait at an engine for rounds and collectives that this rank has not begun.
struct InboxLimits {
  std::uint64_t messages = 1 << 18;              ///< from one peer
  std::uint64_t bytes = std::uint64_t{8} << 30;  ///< of their bodies and heads
};

/// \cond inner
/// Headers that no message has at the moment.
using FreeHeaders = std::vector<std::unique_ptr<RoundHeader>>;

/// An operation of a round in flight.
struct RunningOp {
  std::uint32_t instance = 0;
  std::uint32_t generation = 0;
  OpId op = 0;
};

/// A message of a round, or of a collective, that is not there yet.
struct Kept {
  int peer = -1;
  Envelope envelope;
  std::vector<std::byte> head;
  Block body;
};

/// Where the body of the message goes that a peer is in the middle of.
struct Arriving {
  enum class To {
    nowhere,
    buffer,   ///< memory bound to the round of `op`, which is not retired before the body is there
    early,    ///< a block of the round of `op`, in which it waits for its receive
    kept,     ///< `kept`
    encoded,  ///< the block in `kept`, to be decoded for `op`, or for nobody
    left,     ///< the block in `kept`: its round has ended meanwhile, and nobody wants it
  } to = To::nowhere;
  RunningOp op{};
  bool present = false;
  Kept kept{};
};

/// Messages that wait at an engine, and those that peers are in the middle of. Has an entry for each peer that
/// something has come from, and none for the others.
class Inbox {
 public:
  Inbox(InboxLimits limits, TimePoint since) : limits_(limits), since_(since) {}

  const InboxLimits& limits() const { return limits_; }

  /// The message that `peer` is in the middle of. The reference stays valid.
  Arriving& arriving(int peer) { return of(peer).arriving; }
  /// Calls `visit(Arriving&)` for each peer that something has come from.
  template <class Visit>
  void each_arriving(Visit visit) {
    for (auto& [number, peer] : peers_) visit(peer.arriving);
  }

  void heard(int peer, TimePoint now) { of(peer).heard = now; }
  /// When something last came from `peer`; the time of construction if nothing has.
  TimePoint last_heard(int peer) const;

  /// Makes room for a message of `peer` that will wait, or says that too much of it waits already.
  [[nodiscard]] bool reserve(int peer, std::uint64_t bytes);
  /// Gives back what reserve() took for a message that waits no longer.
  void release(const Kept& message);

  /// Keeps a whole message until its round opens. Requires: reserve().
  void keep(Kept message);
  /// Keeps a whole message until its collective is registered. Requires: reserve().
  void keep_unclaimed(Kept message) { unclaimed_.push_back(std::move(message)); }

  /// Takes what waits for a round, in the order in which it came.
  std::vector<Kept> take(CollectiveId collective, Round round);
  /// Takes what waits for any round of a collective.
  std::vector<Kept> forget(CollectiveId collective);
  /// Takes what waits for the first `registered` collectives to be there.
  std::vector<Kept> claim(std::size_t registered);

 private:
  struct Peer {
    Arriving arriving;
    TimePoint heard;
    std::uint64_t messages = 0;  // that wait, as have the bytes
    std::uint64_t bytes = 0;
  };

  /// A message is looked up several times on its way: the last peer is remembered.
  Peer& of(int peer) {
    if (last_ == nullptr || last_number_ != peer) {
      last_ = &peers_[peer];
      last_number_ = peer;
    }
    return *last_;
  }

  const InboxLimits limits_;
  const TimePoint since_;
  std::unordered_map<int, Peer> peers_;  // whose entries never move
  Peer* last_ = nullptr;
  int last_number_ = -1;
  std::map<std::pair<CollectiveId, Round>, std::vector<Kept>> waiting_;
  std::vector<Kept> unclaimed_;
};
/// \endcond

}  // namespace stretto
