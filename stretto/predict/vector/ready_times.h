#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace stretto {

/// The costs of messages: LogGP (Alexandrov, Ionescu, Schauser and Scheiman, SPAA 1995). Seconds, and seconds per byte.
struct MessageCosts {
  double latency = 0;   ///< L: of the network, for each message
  double overhead = 0;  ///< o: a rank's processor is busy, for each message that it sends and each that it receives
  double gap = 0;       ///< g: from the begin of one message of a rank to that of its next, at least
  double byte_gap = 0;  ///< G: the same for each byte behind the first

  /// From the end of the sender's overhead to the begin of the receiver's.
  double on_the_way(double bytes) const { return latency + after_first(bytes); }
  double after_first(double bytes) const { return bytes > 1 ? (bytes - 1) * byte_gap : 0; }
};

/// When the ranks of a collective of known shape are ready, advanced round by round. Where nothing is shared and
/// nothing depends on who comes first there are no events to keep in order: a rank is ready when it has sent its
/// message and has received that of its peer. So a round is a loop over arrays.
class ReadyTimes {
 public:
  /// `ready`: when each rank arrives, in seconds.
  ReadyTimes(std::vector<double> ready, const MessageCosts& costs);

  /// Each rank sends a message of so many bytes to the rank `distance` behind it, in a circle, and receives one.
  /// Requires: 0 < distance < ranks.
  void shift(std::size_t distance, double bytes);
  /// Ranks r and r XOR `mask` send each other a message. Requires: `mask` a power of two; ranks a multiple of 2 · mask.
  void swap(std::size_t mask, double bytes);
  /// Of the first `ranks` ranks all of swap(1), swap(2), … swap(ranks / 2). Requires: a power of two.
  void swap_all(std::size_t ranks, double bytes);
  /// Rank `from` + i sends a message to rank `to` + i, for `count` ranks. Requires: none of them receives and sends.
  void give(std::size_t from, std::size_t to, std::size_t count, double bytes);

  /// When each rank has received what was sent to it.
  std::span<const double> ready() const { return ready_; }
  std::size_t size() const { return ready_.size(); }

 private:
  void swap_within(std::size_t first, std::size_t end, std::size_t mask, double bytes);

  const MessageCosts costs_;
  std::vector<double> ready_;
  std::vector<double> card_;  // when a rank's next message may begin
  std::vector<double> sent_;  // of this round; only shift() needs it
};

/// An allreduce of so many bytes in a ring: 2(n − 1) messages of a rank, each of 1/n of the bytes. `ready`: when each
/// rank arrives. Returns when each has the result.
std::vector<double> ring_allreduce(std::vector<double> ready, double bytes, const MessageCosts& costs);

/// An allreduce by recursive doubling: log2(n) messages of a rank, each of all bytes. Of a number of ranks that is no
/// power of two, those above the largest one send theirs to a rank below first, and get the result from it.
std::vector<double> recursive_doubling(std::vector<double> ready, double bytes, const MessageCosts& costs);

}  // namespace stretto
