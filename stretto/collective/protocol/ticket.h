#pragma once

#include <algorithm>

#include "stretto/base/defect.h"
#include "stretto/transport/transport.h"

namespace stretto {

/// Where a rank stands in the protocol (docs/protocol.md), as it knows itself: for diagnosis and for tests.
struct ProtocolState {
  Round ticket = 0, handed = 0, complete = 0, joined = 0, activated = 0;
  bool waiting = false, drained = false;
  bool full = false;  ///< the policy of round `complete`
};

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

/// The application's side of the protocol of a group allreduce (docs/groups.md): the round of its next
/// exchange, and up to which round results have been used. Pure.
class GroupTicket {
 public:
  /// `jumps`: a late rank goes on with the open round; else it makes every iteration.
  explicit GroupTicket(bool jumps) : jumps_(jumps) {}

  /// Whether round next() is over already, so that nobody waits there. A full one is never over before this rank comes.
  bool late(Round complete) const { return complete > next_; }
  /// The exchange is over, with `complete` rounds complete here.
  void passed(Round complete) {
    const Round before = next_++;
    if (jumps_) next_ = std::max(next_, complete);
    jumped_ += next_ - before - 1;
  }
  /// A rank without batches has no iterations of its own: it is where the newest result is that it has used.
  void follow() { next_ = std::max(next_, used_); }
  /// Results of rounds before `before` are used, or passed over.
  void used(Round before) { used_ = std::max(used_, before); }

  Round next() const { return next_; }      ///< t: the round of the next exchange
  Round used() const { return used_; }      ///< results of rounds before this one are used
  Round jumped() const { return jumped_; }  ///< rounds for which this rank has made no iteration

 private:
  const bool jumps_;
  Round next_ = 0;
  Round used_ = 0;
  Round jumped_ = 0;
};

}  // namespace stretto
