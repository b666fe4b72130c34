#pragma once

#include <cstdint>

#include "stretto/board/partial_memory.h"
#include "stretto/transport/transport.h"

namespace stretto {

/// A seat's contribution to a round, in one word that is swapped as a whole.
///
/// Open: the sets that go into `round` if it is sealed now. Sealed: the sets that have gone into `round`; the next
/// deposit or arrival replaces it by an open word of the round after. All zero is an open word of round 0 without
/// anything.
class SeatWord {
 public:
  static constexpr int kMaxSets = 15;

  constexpr SeatWord() = default;
  constexpr explicit SeatWord(std::uint64_t bits) : bits_(bits) {}
  static constexpr SeatWord open(Round round, bool drained) {
    return SeatWord(round << kRoundAt | (drained ? kDrained : 0));
  }

  constexpr std::uint64_t bits() const { return bits_; }
  constexpr Round round() const { return bits_ >> kRoundAt; }
  constexpr bool sealed() const { return (bits_ & kSealed) != 0; }
  constexpr bool arrived() const { return (bits_ & kArrived) != 0; }
  constexpr bool drained() const { return (bits_ & kDrained) != 0; }
  /// The set deposited first and the one deposited, or added up, after it; −1: none.
  constexpr int first() const { return static_cast<int>(bits_ >> kFirstAt & 0xf) - 1; }
  constexpr int second() const { return static_cast<int>(bits_ >> kSecondAt & 0xf) - 1; }
  constexpr bool empty() const { return first() < 0; }
  constexpr bool holds(int set) const { return set >= 0 && (first() == set || second() == set); }

  constexpr SeatWord with_arrived() const { return SeatWord(bits_ | kArrived); }
  constexpr SeatWord with_drained() const { return SeatWord(bits_ | kDrained); }
  constexpr SeatWord with_first(int set) const { return with(kFirstAt, set); }
  constexpr SeatWord with_second(int set) const { return with(kSecondAt, set); }
  constexpr SeatWord as_sealed() const { return SeatWord(bits_ | kSealed); }

  /// Whether this seat is sealed for `round`, or for a later one.
  constexpr bool sealed_at_least(Round round) const {
    return sealed() ? this->round() >= round : this->round() > round;
  }
  /// The sealed word of `round`, if it is sealed now. Requires: !sealed_at_least(round), sealed_at_least(round − 1).
  constexpr SeatWord to_seal(Round round) const { return (sealed() ? open(round, drained()) : *this).as_sealed(); }
  /// The open word that follows: of this round, or of the one after where this is sealed.
  constexpr SeatWord reopened() const { return sealed() ? open(round() + 1, drained()) : *this; }

  friend constexpr bool operator==(SeatWord, SeatWord) = default;

 private:
  static constexpr std::uint64_t kSealed = 1, kArrived = 2, kDrained = 4;
  static constexpr int kFirstAt = 4, kSecondAt = 8, kRoundAt = 16;

  constexpr SeatWord with(int at, int set) const {
    return SeatWord((bits_ & ~(std::uint64_t{0xf} << at)) | static_cast<std::uint64_t>(set + 1) << at);
  }

  std::uint64_t bits_ = 0;
};

/// The application's side of a PartialBoard: one rank's deposits, arrivals and handed results. One application thread.
class PartialSeat {
 public:
  PartialSeat(PartialMemory& memory, int rank) : memory_(memory), rank_(rank) {}

  /// A set of buffers that no round uses and that is not pending; the caller's until it is deposited. Never blocks.
  int acquire();
  /// Sets that rounds from `round` on have taken are not filled again, even where these are summed: the members of the
  /// job may change, and deposits whose results do not count are carried. Never called: all rounds that are summed.
  void reuse_before(Round round) { reuse_before_ = round; }

  /// Adds a set to the pending ones; its buffers and facts are filled and are not changed any more. A step machine, so
  /// that a search can interleave it with the ranks that seal.
  class Deposit {
   public:
    Deposit(PartialSeat& seat, int set) : seat_(seat), set_(set) {}
    /// One step; returns true when the deposit has been made.
    bool step();

   private:
    enum class State { look, note, add, swap };

    PartialSeat& seat_;
    const int set_;
    int sum_ = -1;  // the set in which deposits are added up
    SeatWord seen_, next_;
    State state_ = State::look;
  };

  /// The application waits at `round` from `now` on, nanoseconds. Nothing happens where it has been sealed already.
  void arrive(Round round, std::int64_t now);
  /// No more deposits: counts as arrived in every later round.
  void drain();
  /// `rounds` results have been handed over. Returns whether a round has been held back for that: look at the board.
  bool hand_over(Round rounds);

  bool pending() const;
  /// Calls `each` with the sets that this rank has deposited and that no round before `round` has taken, oldest first.
  /// Requires: rounds before `round` have taken what they take here, and fewer than PartialShape::results_kept() since.
  template <class Each>
  void each_set_from(Round round, Each each) const {
    const auto both = [&](SeatWord word) {
      if (word.first() >= 0) each(word.first());
      if (word.second() >= 0) each(word.second());
    };
    // Others may seal the word meanwhile: it holds the same sets then.
    const SeatWord last = load();
    for (; round < last.round(); ++round) {
      const SeatWord word(memory_.sealed(round, rank_).load(std::memory_order_acquire));
      if (word.sealed() && word.round() == round && !defect(Defect::carried_nothing)) both(word);
    }
    if (last.round() == round && !(last.sealed() && defect(Defect::carried_nothing))) both(last);
  }

 private:
  SeatWord load() const { return SeatWord(memory_.seat(rank_).load(std::memory_order_seq_cst)); }
  bool swap(SeatWord& seen, SeatWord next);
  void changed() { memory_.words().changes.fetch_add(1, std::memory_order_seq_cst); }
  void add(int sum, int older, int newer);

  PartialMemory& memory_;
  const int rank_;
  std::uint32_t filling_ = 0;  // sets that acquire() has given out
  std::uint32_t touched_ = 0;  // those it has ever given out
  static constexpr Round kEvery = ~Round{0};
  Round reuse_before_ = kEvery;
  SeatWord gone_;  // sealed word of the last round that took a set of ours: free once that round is summed
};

/// Copies the sealed word of a seat to PartialMemory::sealed(), where it stays until every rank has been handed the
/// round. Any rank that sees the sealed word may do so; all write the same, and a rank that comes too late writes
/// nothing.
void note_sealed(PartialMemory& memory, int rank, SeatWord word);

}  // namespace stretto
