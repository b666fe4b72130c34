#pragma once

#include <cstdint>

#include "stretto/transport/transport.h"

namespace stretto {

/// What is to be summed in a round, as far as it is known: the first so many sources of a list. One rank at a time adds
/// to the list (busy); final: nothing more comes.
class PlanWord {
 public:
  constexpr explicit PlanWord(std::uint64_t bits) : bits_(bits) {}
  constexpr PlanWord(Round round, std::uint64_t sources, bool final)
      : bits_(round << 24 | sources << 8 | (final ? kFinal : 0)) {}

  constexpr std::uint64_t bits() const { return bits_; }
  constexpr Round round() const { return bits_ >> 24; }
  constexpr std::uint64_t sources() const { return bits_ >> 8 & 0xffff; }
  constexpr bool final() const { return (bits_ & kFinal) != 0; }
  constexpr bool busy() const { return (bits_ & kBusy) != 0; }
  constexpr PlanWord as_busy() const { return PlanWord(bits_ | kBusy); }

 private:
  static constexpr std::uint64_t kBusy = 1, kFinal = 2;
  std::uint64_t bits_;
};

/// How far a piece of a round's sum is: the first so many sources are in it. One rank at a time adds to it (busy); who
/// comes by meanwhile leaves word (again), so that the plan is looked at once more.
class PieceWord {
 public:
  constexpr explicit PieceWord(std::uint64_t bits) : bits_(bits) {}
  constexpr PieceWord(Round round, std::uint64_t sources, bool finished)
      : bits_(round << 24 | sources << 8 | (finished ? kFinished : 0)) {}

  constexpr std::uint64_t bits() const { return bits_; }
  constexpr Round round() const { return bits_ >> 24; }
  constexpr std::uint64_t sources() const { return bits_ >> 8 & 0xffff; }
  constexpr bool finished() const { return (bits_ & kFinished) != 0; }
  constexpr bool busy() const { return (bits_ & kBusy) != 0; }
  constexpr PieceWord as_busy() const { return PieceWord(bits_ | kBusy); }
  constexpr PieceWord with_again() const { return PieceWord(bits_ | kAgain); }

 private:
  static constexpr std::uint64_t kBusy = 1, kFinished = 2, kAgain = 4;
  std::uint64_t bits_;
};

}  // namespace stretto
