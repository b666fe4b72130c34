#pragma once

#include <set>
#include <utility>
#include <vector>

#include "stretto/base/clock.h"

namespace stretto {

/// The network cards of ranks, on which transfers advance together. Each card has two directions, independent of each
/// other. A transfer passes the sending direction of one card and the receiving one of another. The rates are max-min
/// fair by weight: all rates rise in proportion to the weights until a card is used up; those that pass it stay as they
/// are, the others rise further (progressive filling: Bertsekas and Gallager, Data Networks, section 6.5.2).
///
/// Times never go back from call to call. An event costs a few steps for each transfer whose cards are connected with
/// those of the one that begins or ends by cards shared, and the logarithm of the number of transfers for each one
/// whose rate it changes.
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
    int from = 0, to = 0;  // directions of cards, indices into cards_
    double weight = 0;
    double left = 0;  // nanoseconds if it were alone, at `since`
    double rate = 0;  // of a card's
    double next = 0;  // what the rate becomes; 0: not known yet
    TimePoint since, over;
  };
  struct Card {  // one direction
    std::vector<int> transfers;
    bool found = false;
    // Of the transfers whose next rate is not known yet.
    double rate_left = 0, weight = 0;
    std::size_t open = 0;
  };

  Transfer& transfer(int number) { return transfers_[static_cast<std::size_t>(number)]; }
  Card& card(int direction) { return cards_[static_cast<std::size_t>(direction)]; }
  void find(int direction);
  void find_connected(const Transfer& transfer);
  void fill();
  void set_rates(TimePoint now);

  std::vector<Card> cards_;
  std::vector<Transfer> transfers_;
  std::vector<int> free_;                     // numbers of transfers that are over
  std::set<std::pair<TimePoint, int>> over_;  // of all that are under way
  std::vector<int> found_;                    // directions connected with the one that changes
};

}  // namespace stretto
