#pragma once

#include <algorithm>

#include "stretto/base/defect.h"
#include "stretto/transport/transport.h"

namespace stretto {

/// The application's side of the protocol (docs/protocol.md, rule 2): which round its next exchange belongs to, and
/// whether it waits there. Pure. Always next() ≤ handed() ≤ rounds complete.
class Ticket {
 public:
  explicit Ticket(int max_lag) : cap_(static_cast<Round>(max_lag)) {}

  enum class Move {
    catch_up,              ///< take the results there are and go on at once
    catch_up_then_arrive,  ///< the open round needs all ranks: take the results there are, then wait at it
    arrive,                ///< wait at the open round
  };

  /// The move of an exchange with `complete` rounds complete here; `full`: the open round's policy is full.
  Move decide(Round complete, bool full) const {
    if (next_ == complete) return Move::arrive;
    return full ? Move::catch_up_then_arrive : Move::catch_up;
  }

  /// One result has been handed over and released.
  void handed_over() { ++handed_; }
  /// Results before `complete` are not wanted (delivery latest).
  void skip_to(Round complete) { handed_ = complete; }

  /// A late exchange has taken all results before `complete`: its debt of rounds shrinks to at most max_lag.
  void caught_up(Round complete) {
    ++next_;
    if (defect(Defect::no_cap)) return;
    next_ = std::max(next_, complete > cap_ ? complete - cap_ : 0);
  }
  /// All results are taken and the exchange goes on to wait at `complete`.
  void move_to_front(Round complete) { next_ = complete; }
  /// The round it waited at is complete and handed over.
  void passed() { ++next_; }

  Round next() const { return next_; }
  Round handed() const { return handed_; }

 private:
  Round cap_;
  Round next_ = 0;
  Round handed_ = 0;
};

}  // namespace stretto
