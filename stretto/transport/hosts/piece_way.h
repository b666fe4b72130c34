#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "stretto/base/clock.h"

namespace stretto {

/// Bytes of a piece, at most: so few that neither UCX nor an MPI over TCP asks the receiver before it sends them.
inline constexpr std::size_t kPieceBytes = 60 << 10;

/// A way that has nothing to sleep on looks for pieces of others rarely where none has moved for so long.
inline constexpr Duration kUntilDozing = std::chrono::milliseconds(100);

/// Bytes of messages to a peer, one behind the other, in memory of its own.
struct Piece {
  int peer = 0;
  std::uint64_t number = 0;  ///< pieces to this peer before it
  std::size_t bytes = 0;     ///< of `room`, from its beginning
  bool is_kept = false;      ///< by a way that has ended: it may be read for ever
  void* way = nullptr;       ///< the way's own, as the next one, as long as it has the piece
  std::array<std::uint64_t, 3> header{};
  std::vector<std::byte> room = std::vector<std::byte>(kPieceBytes);
};

/// Hears of pieces from a PieceWay, inside calls of it. Does not throw.
class PieceSink {
 public:
  /// A piece of a peer has come; `bytes` are valid inside the call. The pieces of a peer come in their order.
  virtual void came(int peer, std::span<const std::byte> bytes) = 0;
  /// A piece that was posted has left, or never will: the way needs it no longer.
  virtual void left(Piece& piece) = 0;
  /// Nothing more goes to the peer, or comes from it.
  virtual void broken(int peer, const std::string& how) = 0;

 protected:
  ~PieceSink() = default;
};

/// Moves pieces between ranks of different hosts, as a library of others does it. One thread at a time.
class PieceWay {
 public:
  virtual ~PieceWay() = default;  ///< the last use of pieces that are not kept

  /// The bytes that link() of the other ranks needs of this one.
  virtual std::vector<std::byte> address() const = 0;
  /// From now on all is said to `sink`. Before any of the calls below.
  virtual void begin(PieceSink& sink) = 0;
  /// Makes the way to a peer, of which pieces may come from now on. Once a peer.
  virtual void link(int peer, std::span<const std::byte> address) = 0;
  /// Sends a piece to a peer that is linked. It is the way's until PieceSink::left(). Not inside calls of the sink.
  virtual void post(Piece& piece) = 0;
  /// Whether progress() may have something to do.
  virtual bool has_work() = 0;
  /// Moves pieces without waiting. Returns whether there may be more at once.
  virtual bool progress() = 0;
  /// Ends a time of progress(): returns whether progress_by(), or the doorbell, says when the next one is due. False:
  /// at once.
  virtual bool rest() = 0;
  virtual TimePoint progress_by() const = 0;
  /// Whether a peer for which there was no piece for a while has to be told before the next one, by another way.
  virtual bool dozes() const { return false; }
  /// A piece may come soon.
  virtual void wake() {}
  /// As Carrier::has_ended().
  virtual bool leave() { return true; }
};

}  // namespace stretto
