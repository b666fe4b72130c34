#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/rank_set.h"
#include "stretto/collective/protocol/policy.h"
#include "stretto/collective/protocol/roll_call.h"

namespace stretto {

/// The engine's side of the protocol of a partial allreduce (docs/protocol.md, rules 6–9): which rounds are activated,
/// when this rank joins them, and which rank tells which other one. A pure state machine: no thread, no transport, no
/// buffer, no clock of its own.
///
/// It speaks for one rank, or for the ranks of a board: these join together, once all of them may, and are told of as
/// one (activations), but counted one by one (arrivals, drains). A *seat* is a rank's number at its board.
///
/// At all times h ≤ c ≤ s ≤ act and s ≤ h + W, with c complete(), s joined(), h handed(), act activated().
class RoundProtocol {
 public:
  /// For the ranks `here`, ascending, of a job of `ranks`: those at a board, or one alone.
  RoundProtocol(const std::vector<int>& here, int ranks, int max_lag, PolicyRule rule);

  // Events, as the owner hears of them. Each may make new actions due and change may_join().
  /// The application of a seat waits at round `round` (docs/protocol.md, rule 2).
  void application_arrived(Round round, int seat = 0) { roll_.seat(seat).arrived_at = round; }
  /// All applications here have been handed so many results.
  void application_handed(Round handed) { handed_ = handed; }
  void application_drained(int seat = 0) { roll_.seat(seat).drained = true; }
  /// A schedule message of `round` came. `full`: it says that the round's policy is full, so this rank joins only once
  /// its own application has come.
  /// Returns false if the round is over already: drop it.
  bool message_of(Round round, bool full = false);
  void peer_arrived(int peer, Round round, TimePoint now);
  void peer_drained(int peer) { roll_.drained(peer); }
  /// Requires: joined.
  void round_completed(Round round, const RoundHeader& header);

  /// The next thing to be done, if any; a full round is started here alone. `may_start` false: not to start the open
  /// round.
  std::optional<RoundAction> next_action(TimePoint now, bool may_start = true);
  /// Latest time of the next next_action().
  TimePoint act_by() const { return act_by_; }

  /// Whether round joined() may be joined now: s < act and s < h + W; a full one when all applications have come.
  bool may_join() const { return may_join_but_for_lag() && within_lag(); }
  /// The same without s < h + W: the caller tests that by itself.
  bool may_join_but_for_lag() const;
  /// Whether the bound on the lag keeps round joined() from being joined: it is held.
  bool held() const { return joined_ < activated_ && !within_lag(); }
  /// Whether the policy of `round` is known to be full. Requires: complete() ≤ round.
  bool full(Round round) const;
  /// Joins round joined().
  void join() { ++joined_; }
  /// Whether the application of seat 0 waits at round `round`.
  bool has_arrived_at(Round round) const { return roll_.seats()[0].arrived_at == round; }
  bool drained() const { return roll_.seats()[0].drained; }
  bool may_have_drained(int peer) const { return roll_.may_have_drained(peer); }

  Round handed() const { return handed_; }
  Round complete() const { return rule_.next_round(); }
  Round joined() const { return joined_; }
  Round activated() const { return activated_; }
  /// The last round's header showed every rank drained: nothing follows.
  bool stopped() const { return stopped_; }
  /// The policy of round complete().
  const Policy& policy() const { return rule_.current(); }
  std::uint64_t batches_applied() const { return rule_.batches(); }

  static constexpr int counter() { return RollCall::counter(); }
  /// The ranks that have not come to the open round, as the counter sees it. Requires: this rank is the counter.
  RankSet missing() const;

 private:
  TimePoint may_start_open() const;
  RoundAction activate_open();
  bool within_lag() const;
  bool all_have_come() const;

  const int ranks_;
  const Round max_lag_;
  PolicyRule rule_;

  Round handed_ = 0;
  Round joined_ = 0;
  Round activated_ = 0;
  bool stopped_ = false;
  RollCall roll_;
  std::optional<Round> full_ahead_;  // the newest round that a message has said to be full
  TimePoint act_by_ = TimePoint::never();
  LearnedPatience learned_patience_;  // the counter's
};

}  // namespace stretto
