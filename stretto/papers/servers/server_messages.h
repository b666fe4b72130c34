#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stretto/engine/engine.h"

namespace stretto {

/// Control messages of a ParameterServer. GET, DONE: the round is the MessageId of the answer. PASS: round and note are
/// those of PUSH. COMMIT: `last` where no
/// version of the phase follows.
inline constexpr std::uint16_t kGet = kControlChannel;           ///< note: the version wanted
inline constexpr std::uint16_t kDone = kControlChannel + 1;      ///< note: the clock at which the rank ends the phase
inline constexpr std::uint16_t kCommit = kControlChannel + 2;    ///< round: version; note: whether last; head: ranks
inline constexpr std::uint16_t kPass = kControlChannel + 3;      ///< in the place of PUSH, without a body
inline constexpr std::uint16_t kWhoWaits = kControlChannel + 4;  ///< an Inquiry: for whom the shards wait, in words

/// A message with a body travels as a round of its own, by a schedule of one message. Which one it is stands in the
/// number of the round, the same on both sides.
struct MessageId {
  /// Whose body it is.
  enum class Kind : std::uint8_t {
    push,   ///< of step `clock`; the note is the version it was computed on
    value,  ///< answers GET at `clock`; the note is its version
    final,  ///< answers DONE of phase `clock`, from 0; likewise
  };
  Kind kind = Kind::push;
  int bucket = 0;
  int worker = 0;           ///< the rank that pushes, or has asked
  std::uint64_t clock = 0;  ///< steps that rank has pushed before

  /// Requires: fewer than `buckets` and `ranks`, as has the next.
  Round encode(int buckets, int ranks) const {
    const auto b = static_cast<std::uint64_t>(buckets), r = static_cast<std::uint64_t>(ranks);
    return ((clock * b + static_cast<std::uint64_t>(bucket)) * r + static_cast<std::uint64_t>(worker)) * 3 +
           static_cast<std::uint64_t>(kind);
  }
  static MessageId decode(Round round, int buckets, int ranks) {
    const auto b = static_cast<std::uint64_t>(buckets), r = static_cast<std::uint64_t>(ranks);
    return {.kind = static_cast<Kind>(round % 3),
            .bucket = static_cast<int>(round / 3 / r % b),
            .worker = static_cast<int>(round / 3 % r),
            .clock = round / 3 / r / b};
  }
};

/// Ranks as bits, 64 a word.
inline std::vector<std::uint64_t> bits_of(std::span<const int> ranks, int num_ranks) {
  std::vector<std::uint64_t> words((static_cast<std::size_t>(num_ranks) + 63) / 64);
  for (const int rank : ranks) words[static_cast<std::size_t>(rank / 64)] |= std::uint64_t{1} << (rank % 64);
  return words;
}

/// The reverse, ascending. Bits beyond `num_ranks` are left out.
inline std::vector<int> ranks_of(std::span<const std::uint64_t> words, int num_ranks) {
  std::vector<int> ranks;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const auto word = static_cast<std::size_t>(rank / 64);
    if (word < words.size() && (words[word] >> (rank % 64) & 1) != 0) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace stretto
