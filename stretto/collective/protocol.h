#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/rank_set.h"
#include "stretto/collective/arrival_patience.h"
#include "stretto/collective/policy.h"

namespace stretto {

/// The engine's side of the protocol of a partial allreduce (protocol.md, rules 6–9): which rounds are activated, when
/// this rank joins them, who tells whom. A pure state machine: no thread, no transport, no buffer, no clock of its own.
///
/// At all times h ≤ c ≤ s ≤ act and s ≤ h + W, with c complete(), s joined(), h handed(), act activated().
class RoundProtocol {
 public:
  struct Action {
    enum class Kind {
      activate,  ///< start `round` here and, unless it is full, tell everyone
      arrive,    ///< tell the counter that this rank waits at `round`
      drain,     ///< tell the counter that this rank has no further batches
    };
    Kind kind;
    Round round = 0;
  };

  RoundProtocol(int rank, int ranks, int max_lag, PolicyRule rule);

  // What happens. Each may make new actions due and change may_join().
  /// The application waits at round `round` (protocol.md, rule 2).
  void application_arrived(Round round);
  void application_handed(Round handed);
  void application_drained();
  /// A schedule message of `round` came; `full`: it says that the round's policy is full, so that it asks nobody in.
  /// Returns false if the round is over already: drop it.
  bool message_of(Round round, bool full = false);
  void peer_arrived(int peer, Round round, TimePoint now);
  void peer_drained(int peer);
  /// Requires: joined.
  void round_completed(Round round, const RoundHeader& header);

  /// The next thing to be done, if any.
  std::optional<Action> next_action(TimePoint now);
  /// Latest time of the next next_action().
  TimePoint act_by() const { return act_by_; }

  /// Whether round joined() may be joined now: s < act and s < h + W; a full one when the application has come.
  bool may_join() const;
  /// Whether the bound on the lag keeps round joined() from being joined: it is held.
  bool held() const { return joined_ < activated_ && !within_lag(); }
  /// Whether the policy of `round` is known to be full. Requires: complete() ≤ round.
  bool full(Round round) const;
  /// Joins round joined().
  void join() { ++joined_; }
  /// Whether this rank's application waits at round `round`.
  bool has_arrived_at(Round round) const { return arrived_at_ == round; }
  bool drained() const { return drained_; }

  Round handed() const { return handed_; }
  Round complete() const { return rule_.next_round(); }
  Round joined() const { return joined_; }
  Round activated() const { return activated_; }
  /// The last round's header showed every rank drained: nothing follows.
  bool stopped() const { return stopped_; }
  /// The policy of round complete().
  const Policy& policy() const { return rule_.current(); }
  std::uint64_t batches_applied() const { return rule_.batches(); }

  /// The rank whose engine counts arrivals.
  static constexpr int counter() { return 0; }
  /// Who is missing in the open round, as the counter sees it. Requires: this rank is the counter.
  RankSet missing() const;

 private:
  struct Arrivals {
    Round round = 0;
    RankSet ranks;
    std::vector<TimePoint> times;  // in order of arrival
  };

  bool is_counter() const { return rank_ == counter(); }
  Arrivals& arrivals_at(Round round);
  void note_arrival(int peer, Round round, TimePoint now);
  bool may_start(TimePoint now);
  Duration patience() const;
  void activate_here(Round round);
  bool within_lag() const;
  bool has_come() const { return drained_ || arrived_at_ == complete(); }

  const int rank_;
  const int ranks_;
  const Round max_lag_;
  PolicyRule rule_;

  Round handed_ = 0;
  Round joined_ = 0;
  Round activated_ = 0;
  bool stopped_ = false;
  bool drained_ = false;
  bool drain_told_ = false;
  std::optional<Round> arrived_at_;
  std::optional<Round> full_ahead_;  // the newest round that a message has said to be full
  std::optional<Round> told_of_;     // the round whose arrival has been acted on
  TimePoint act_by_ = TimePoint::never();

  // The counter's.
  std::deque<Arrivals> arrivals_;  // of rounds not completed here
  RankSet drained_peers_;
  bool last_header_all_drained_ = false;
  ArrivalPatience arrival_patience_;
};

}  // namespace stretto
