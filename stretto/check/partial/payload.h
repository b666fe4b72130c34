#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stretto/check/partial/scenario.h"
#include "stretto/collective/rounds/contribution.h"

namespace stretto {

/// The content of a scenario's deposits, drawn from its seed.
///
/// int64: element j of bucket b is value · (2(j + b) + 1), modulo 2^64. Every order of summing gives the same bits.
/// float32: element j of bucket b is a small integer · a small odd number · 2^e, where e belongs to the rank. The
/// deposits of one rank add up exactly, in any order; those of several ranks are rounded, so that another tree of sums
/// gives other bits.
class Payload {
 public:
  static constexpr std::size_t kFactors = 13;  ///< float32: the odd numbers repeat with this period

  explicit Payload(const Scenario& scenario);

  std::uint64_t value(int rank, std::uint64_t step) const;
  /// int64: element j of bucket b of the deposit, or of the sum of deposits, with this value.
  static std::uint64_t element(std::uint64_t value, std::size_t bucket, std::uint64_t j) {
    return value * (2 * (j + bucket) + 1);
  }
  /// float32: the small integer of a deposit, −4096 … 4095, so that 120 deposits times the largest odd number stay
  /// below 2^24.
  static std::int64_t small(std::uint64_t value) { return static_cast<std::int64_t>(value >> 51) - 4096; }
  /// float32: the element of a rank whose deposits' small integers sum up to `sum`.
  float real(int rank, std::int64_t sum, std::size_t factor) const;
  bool is_real() const { return scenario_.buckets[0].type == DataType::float32; }

  /// The ranks at each board, which are summed first; all at one where there is none.
  const std::vector<std::vector<int>>& boards() const { return boards_; }

  /// Writes the buckets first … end − 1 of a rank's step.
  void fill(Contribution& contribution, int rank, std::uint64_t step, std::size_t first, std::size_t end) const;

 private:
  const Scenario& scenario_;
  std::vector<std::vector<int>> boards_;
};

/// The sum that one round must bring, to the bit.
class RoundSum {
 public:
  RoundSum(const Scenario& scenario, const Payload& payload);

  /// A deposit of `rank` is part of the round.
  void take(int rank, std::uint64_t value);
  /// All deposits are known. float32: sums them by the fixed tree (docs/protocol.md, Bits), first within each board.
  void settle();
  /// Requires, as the following: settled. The first element of a result's first bucket, as the weights see it.
  std::uint64_t first() const;
  /// Whether `got` is bucket `bucket` of the result.
  bool is(std::size_t bucket, std::span<const std::byte> got) const;

 private:
  bool is_integer_sum(std::size_t bucket, std::span<const std::byte> got) const;
  bool is_real_sum(std::size_t bucket, std::span<const std::byte> got) const;

  const Payload* payload_;
  std::uint64_t integers_ = 0;
  std::vector<bool> brought_;         // float32, per rank
  std::vector<std::int64_t> smalls_;  // float32, per rank
  std::array<float, Payload::kFactors> reals_{};
};

/// The bits of the first element of `bucket`, 0 where it is empty: a replica's weights follow this number.
std::uint64_t first_bits(std::span<const std::byte> bucket, DataType type);

}  // namespace stretto
