#pragma once

#include <cstdint>

namespace stretto {

/// A number that only grows and an index, in one word that is swapped as a whole: since the number never repeats, a
/// word that is found unchanged has not been changed in between. All zero: there is none.
class NumberedWord {
 public:
  static constexpr std::uint64_t kMaxIndex = (1u << 24) - 1;

  constexpr explicit NumberedWord(std::uint64_t bits) : bits_(bits) {}
  constexpr NumberedWord(std::uint64_t number, std::uint64_t index) : bits_(number << 24 | index) {}

  constexpr std::uint64_t bits() const { return bits_; }
  constexpr std::uint64_t number() const { return bits_ >> 24; }  ///< from 1; 0: none
  constexpr std::uint64_t index() const { return bits_ & kMaxIndex; }

 private:
  std::uint64_t bits_;
};

}  // namespace stretto
