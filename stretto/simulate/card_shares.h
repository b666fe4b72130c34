#pragma once

#include <set>
#include <utility>
#include <vector>

#include "stretto/base/clock.h"

namespace stretto {

/// The network cards of ranks, on which transfers advance together. Each card has two directions, independent of each
/// other. A transfer of weight w may use w/W of its sender's card and w/W of its receiver's, W being the weight of all
/// transfers in that direction of that card; it advances at the smaller of the two shares. What it leaves of the larger
/// one is not given to others.
///
/// Times never go back from call to call. An event costs the logarithm of the number of transfers for each transfer
/// whose share it changes.
class CardShares {
 public:
  explicit CardShares(int ranks) : cards_(2 * static_cast<std::size_t>(ranks)) {}

  /// A transfer from `src` to `dst`, which are different; it takes `alone` if no other is there. Returns a number for
  /// it; numbers are used again.
  int begin(TimePoint now, int src, int dst, Duration alone, double weight);
  bool empty() const { return over_.empty(); }
  /// When the earliest transfer will be over if none begins before, and which it is. Requires: not empty().
  TimePoint earliest() const { return over_.begin()->first; }
  int first() const { return over_.begin()->second; }
  /// `transfer` is over, or has been given up.
  void end(TimePoint now, int transfer);

 private:
  struct Transfer {
    int src = 0, dst = 0;
    double weight = 0;
    double left = 0;  // nanoseconds if it were alone, at `since`
    double share = 0;
    TimePoint since, over;
  };
  struct Card {  // one direction
    std::vector<int> transfers;
    double weight = 0;
  };

  Card& sending(const Transfer& transfer) { return cards_[2 * static_cast<std::size_t>(transfer.src)]; }
  Card& receiving(const Transfer& transfer) { return cards_[2 * static_cast<std::size_t>(transfer.dst) + 1]; }
  void weigh(Card& card) const;
  void share(TimePoint now, const Card& card);

  std::vector<Card> cards_;
  std::vector<Transfer> transfers_;
  std::vector<int> free_;                     // numbers of transfers that are over
  std::set<std::pair<TimePoint, int>> over_;  // of all that are under way
};

}  // namespace stretto
