#pragma once

#include <map>
#include <optional>
#include <vector>

#include "stretto/base/rank_set.h"
#include "stretto/transport/transport.h"

namespace stretto {

/// Which of a node's rounds of a line sends to which of the others (docs/protocol.md, rule 22): a round sends a node
/// nothing as long as a message of another round is on its way there, and nothing new once R newer ones are open. So a
/// node that has stopped holds the memory of R rounds at most, and lacks slices of the others. Pure.
class LineWays {
 public:
  LineWays(int members, int rounds_in_flight) : members_(members), most_(static_cast<Round>(rounds_in_flight)) {}

  void open(Round round);
  /// The contribution of a round to `member` is due. True: it goes now. False: once sent() says so, or never.
  [[nodiscard]] bool may_send(Round round, int member);
  /// The mean of a round is due: it goes, now or later, behind each contribution that goes. Returns to whom now.
  const RankSet& average(Round round);
  /// A contribution or a mean has left. Returns the round whose turn it is to send to that member.
  std::optional<Round> sent(Round round, int member);
  /// Nothing more of the round goes, but what has been said to go now.
  void end(Round round);

  /// Whether something of a round waits for its turn, which will come.
  bool waits(Round round) const;
  /// Whether something of a round is on its way, or waits.
  bool sends(Round round) const;
  /// The rounds that have not ended.
  std::vector<Round> open_rounds() const;
  /// Whether something is on its way to a member.
  bool is_busy(int member) const;

 private:
  struct Of {
    std::vector<int> out;   // by member: messages on their way
    RankSet goes, waiting;  // members: have its contribution, or wait for it
    bool averaged = false, ended = false;
  };
  void go(Of& round, int member) const;
  void forget(Round round);

  const int members_;
  const Round most_;
  std::map<Round, Of> rounds_;  // that send, or may
};

}  // namespace stretto
