#pragma once

#include <cstdint>

#include "stretto/board/partial_memory.h"
#include "stretto/board/seat_word.h"

namespace stretto {

/// The application's side of a PartialBoard: one rank's deposits, arrivals and handed results. One application thread.
class PartialSeat {
 public:
  PartialSeat(PartialMemory& memory, int rank) : memory_(memory), rank_(rank) {}

  /// A set of buffers that no round uses and that is not pending; the caller's until it is deposited. Never blocks.
  int acquire();

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

 private:
  SeatWord load() const { return SeatWord(memory_.seat(rank_).load(std::memory_order_seq_cst)); }
  bool swap(SeatWord& seen, SeatWord next);
  void changed() { memory_.words().changes.fetch_add(1, std::memory_order_seq_cst); }
  void add(int sum, int older, int newer);

  PartialMemory& memory_;
  const int rank_;
  std::uint32_t filling_ = 0;  // sets that acquire() has given out
  std::uint32_t touched_ = 0;  // those it has ever given out
  SeatWord gone_;              // sealed word of the last round that took a set of ours: free once that round is summed
};

/// Copies the sealed word of a seat to PartialMemory::sealed(), where it stays until every rank has been handed the
/// round. Any rank that sees the sealed word may do so; all write the same, and a rank that comes too late writes
/// nothing.
void note_sealed(PartialMemory& memory, int rank, SeatWord word);

}  // namespace stretto
