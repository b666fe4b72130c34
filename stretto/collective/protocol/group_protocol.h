#pragma once

#include <optional>
#include <vector>

#include "stretto/collective/protocol/roll_call.h"

namespace stretto {

/// The engine's side of the protocol of a group allreduce (docs/groups.md): which rounds are activated, when
/// this rank joins them, and which rank tells which other one. A pure state machine: no thread, no transport, no
/// buffer.
///
/// Of several boards the leader of each runs it, for the ranks of its board: these start and join rounds as one, and
/// are counted one by one. A *seat* is a rank's number among them; without a board each rank is its own leader.
///
/// Every `full_every`-th round is full: it waits for the applications of all ranks. The others are group rounds, which
/// the rank that comes first starts for all ranks, or the counter (rank 0) once a quorum of them has come.
///
/// At all times c ≤ s ≤ c + 1, with c complete() and s joined(): one round in flight a rank.
class GroupProtocol {
 public:
  /// For the ranks `here`, ascending, of a job of `ranks`: those at a board, or one alone. `quorum`: ranks that must
  /// have come before a group round starts; 0: the first one starts it. Requires: full_every > 0, 0 ≤ quorum ≤ ranks.
  GroupProtocol(const std::vector<int>& here, int ranks, Round full_every, int quorum);

  // Events, as the owner hears of them. Each may make new actions due and change may_join().
  /// The application of a seat waits at round `round`.
  void application_arrived(Round round, int seat = 0) { roll_.seat(seat).arrived_at = round; }
  /// The application of a seat has taken the newest result, or passed over those before it: of rounds before `before`.
  void application_took(Round before, int seat = 0) { taken_[static_cast<std::size_t>(seat)] = before; }
  /// The application has jumped over so many rounds: nothing follows from it, since rounds are full by their numbers.
  void application_jumped(Round rounds) { jumped_ = rounds; }
  /// The application of a seat has no further batches.
  void application_drained(int seat = 0) { roll_.seat(seat).drained = true; }
  /// A message of the reduction of `round` came, or word that it has started (`activation`). Returns false if the round
  /// is over already: drop it.
  bool message_of(Round round, bool activation);
  /// The counter hears that `peer` waits at `round`.
  void peer_arrived(int peer, Round round, TimePoint now);
  /// The counter hears that `peer` has no further batches.
  void peer_drained(int peer) { roll_.drained(peer); }
  /// Round complete() is complete. `all_drained`: the header of a full round shows every rank drained: nothing follows.
  void round_completed(bool all_drained);

  /// The next thing to be done, if any.
  std::optional<RoundAction> next_action(TimePoint now);

  /// Whether round `round` waits for all applications.
  bool full(Round round) const;
  /// Whether round joined() may be joined now.
  bool may_join() const;
  /// Joins round joined().
  void join() { ++joined_; }
  /// Whether the application of seat 0 waits at round `round`.
  bool has_arrived_at(Round round) const { return roll_.seats()[0].arrived_at == round; }
  bool drained() const { return roll_.seats()[0].drained; }  ///< the application of seat 0 has
  bool may_have_drained(int peer) const { return roll_.may_have_drained(peer); }

  Round complete() const { return complete_; }    ///< c: rounds complete here
  Round joined() const { return joined_; }        ///< s: rounds joined here
  Round activated() const { return activated_; }  ///< group rounds before this one have started
  bool stopped() const { return stopped_; }       ///< the last round is complete

  static constexpr int counter() { return RollCall::counter(); }

 private:
  bool has_come_to_full(const RollCall::Seat& seat) const;
  bool may_start_open() const;

  const int ranks_;
  const Round full_every_;
  const int quorum_;
  RollCall roll_;
  std::vector<Round> taken_;  // by seat

  Round complete_ = 0;
  Round joined_ = 0;
  Round activated_ = 0;
  Round forwarded_ = 0;  // group rounds before this one have been told of
  Round jumped_ = 0;
  bool stopped_ = false;
};

}  // namespace stretto
