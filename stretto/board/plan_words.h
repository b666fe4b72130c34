#pragma once

#include <cstdint>

#include "stretto/transport/transport.h"

namespace stretto {

/// The first so many sources of a round's list, in one word that is swapped as a whole. One rank at a time works on
/// what it stands for (busy).
template <class Word>
class SourcesWord {
 public:
  constexpr explicit SourcesWord(std::uint64_t bits) : bits_(bits) {}
  constexpr SourcesWord(Round round, std::uint64_t sources, bool last)
      : bits_(round << 24 | sources << 8 | (last ? kLast : 0)) {}

  constexpr std::uint64_t bits() const { return bits_; }
  constexpr Round round() const { return bits_ >> 24; }
  constexpr std::uint64_t sources() const { return bits_ >> 8 & 0xffff; }
  constexpr bool busy() const { return (bits_ & kBusy) != 0; }
  constexpr Word as_busy() const { return Word(bits_ | kBusy); }

 protected:
  static constexpr std::uint64_t kBusy = 1, kLast = 2, kAgain = 4;
  constexpr bool last() const { return (bits_ & kLast) != 0; }

 private:
  std::uint64_t bits_;
};

/// What is to be summed in a round, as far as it is known. Busy: somebody adds to the list; final: nothing more comes.
class PlanWord : public SourcesWord<PlanWord> {
 public:
  using SourcesWord::SourcesWord;
  constexpr bool final() const { return last(); }
};

/// How far a piece of a round's sum is: these sources are in it. Busy: somebody adds to it; who comes by meanwhile
/// leaves word (again), so that the plan is looked at once more.
class PieceWord : public SourcesWord<PieceWord> {
 public:
  using SourcesWord::SourcesWord;
  constexpr bool finished() const { return last(); }
  constexpr PieceWord with_again() const { return PieceWord(bits() | kAgain); }
};

}  // namespace stretto
