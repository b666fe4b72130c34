#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace stretto {

// Shorter forms of arrays. Pointers to them need no alignment; those to numbers have that of their type. Memory of
// different arguments does not overlap.

/// Writes to `to` the array with its zeros left out, a chunk of 4096 elements at a time: one of which more than 40 %
/// are zeros as a bit for each element and the others, any other as it is. Returns the bytes written; 0, and nothing is
/// written, where that would not be shorter. A zero has no bit set: −0.0 is none. Of an array without zeros it reads a
/// sixteenth. Requires: elements of 2, 4 or 8 bytes; `to` has room for as many bytes as there are.
std::size_t leave_zeros_out(std::size_t element_bytes, std::span<const std::byte> numbers, std::byte* to);
/// Writes to `numbers` what leave_zeros_out() has made `coded` of, bit by bit. False: that is not of an array of this
/// size.
[[nodiscard]] bool put_zeros_back(std::size_t element_bytes, std::span<const std::byte> coded,
                                  std::span<std::byte> numbers);

/// Bytes of a difference of so many numbers: one each, and a scale for 256 of them.
constexpr std::size_t difference_bytes(std::size_t count) {
  return count + (count + 255) / 256 * sizeof(float);
}
/// Writes to `to` by how much `numbers` are beyond `known`, rounded to 255 steps of the largest such distance among 256
/// of them, and adds that to `known`. False: a distance is infinite or NaN; then both are as far as it has come.
[[nodiscard]] bool take_difference(std::span<const float> numbers, std::span<float> known, std::byte* to);
/// Adds to `known` what take_difference() has added on the other side: the same bits where the same were there. False,
/// and nothing is added: `coded` is not of so many numbers.
[[nodiscard]] bool add_difference(std::span<const std::byte> coded, std::span<float> known);

}  // namespace stretto
