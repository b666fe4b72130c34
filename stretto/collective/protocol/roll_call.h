#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/rank_set.h"
#include "stretto/transport/transport.h"

namespace stretto {

/// An action that a protocol of rounds has its owner carry out.
struct RoundAction {
  enum class Kind {
    activate,  ///< start `round` here, and tell others that it has started
    arrive,    ///< tell the counter that `rank` waits at `round`
    drain,     ///< tell the counter that `rank` has no further batches
  };
  Kind kind;
  Round round = 0;  ///< activate, arrive
  int rank = -1;    ///< arrive, drain
};

/// Who has come to a round, and who has no further batches: of the ranks that a protocol of rounds speaks for, each at
/// a *seat* (those at a board, or one alone), and at the counter, which is rank 0's, of all ranks. Pure.
class RollCall {
 public:
  struct Seat {
    int rank = 0;
    bool drained = false;
    std::optional<Round> arrived_at = std::nullopt;
    bool has_come(Round round) const { return drained || arrived_at == round; }

   private:
    friend class RollCall;
    bool drain_told_ = false;
    std::optional<Round> told_of_ = std::nullopt;  // the round whose arrival the counter knows of
  };
  /// Who the counter knows to have come to a round.
  struct Arrivals {
    Round round = 0;
    RankSet ranks;
    std::vector<TimePoint> times;  ///< in order of arrival
  };

  /// The rank whose engine counts.
  static constexpr int counter() { return 0; }

  /// `here`: the ranks at the seats, ascending, of a job of `ranks`.
  RollCall(const std::vector<int>& here, int ranks);

  Seat& seat(int number) { return seats_[static_cast<std::size_t>(number)]; }
  const std::vector<Seat>& seats() const { return seats_; }
  bool is_counter() const { return seats_[0].rank == counter(); }

  /// The next drain that the counter is to be told of, if any. The counter takes note of its own seats.
  std::optional<RoundAction> tell_of_drains();
  /// The same of seats that have arrived at round `open`.
  std::optional<RoundAction> tell_of_arrivals(Round open, TimePoint now);

  // ---- the counter's ----

  void arrived(int rank, Round round, TimePoint now);
  void drained(int rank) { drained_.insert(rank); }
  /// Takes note of its own seats' drains without a tell_of_drains().
  void note_own_drains();
  const RankSet& drained() const { return drained_; }
  /// Null: nobody has come to the round.
  const Arrivals* at(Round round) const;
  /// The ranks that have come to the round or have drained.
  RankSet come_to(Round round) const;
  /// The rounds before are over.
  void forget_before(Round round);
  /// Whether `rank` may have drained, as far as this rank knows: the counter has been told of each that has.
  bool may_have_drained(int rank) const { return !is_counter() || drained_.contains(rank); }

 private:
  const int ranks_;
  std::vector<Seat> seats_;
  std::deque<Arrivals> arrivals_;
  RankSet drained_;
};

}  // namespace stretto
