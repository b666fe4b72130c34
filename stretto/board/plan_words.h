#pragma once

#include <cstdint>

#include "stretto/transport/transport.h"

namespace stretto {

/// The first so many sources of a round's list, in one word that is swapped as a whole. One rank at a time works on the
/// plan or piece (busy).
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

/// The sources of a round that are known so far. Busy: a rank adds to the list. Final: the list is complete.
class PlanWord : public SourcesWord<PlanWord> {
 public:
  using SourcesWord::SourcesWord;
  constexpr bool final() const { return last(); }
};

/// The progress of a piece of a round's sum: the first so many sources are in it. Busy: a rank adds to it; another rank
/// that finds it busy sets `again`, so that the first one reads the plan once more before it lets go.
class PieceWord : public SourcesWord<PieceWord> {
 public:
  using SourcesWord::SourcesWord;
  constexpr bool finished() const { return last(); }
  constexpr PieceWord with_again() const { return PieceWord(bits() | kAgain); }
};

}  // namespace stretto
