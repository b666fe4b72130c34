#pragma once

#include <algorithm>

#include "stretto/transport/transport.h"

namespace stretto {

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
