#include "stretto/check/partial/payload.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <optional>

#include "stretto/base/random.h"
#include "stretto/collective/rounds/seating.h"

namespace stretto {
namespace {

constexpr std::uint64_t kExponentStream = 0x6578706f6e656e74;
constexpr std::uint64_t kExponents = 31;

using Part = std::optional<float>;  // no value where no rank has brought anything

Part join(const Part& lower, const Part& higher) {
  if (!lower || !higher) return lower ? lower : higher;
  return *lower + *higher;
}

/// The fixed tree: parts 2i and 2i + 1 are folded for i < P − 2^⌊log2 P⌋, then neighbours at distances 1, 2, 4, ….
Part tree(const std::vector<Part>& parts) {
  const std::size_t leaves = std::bit_floor(parts.size());
  const std::size_t folded = parts.size() - leaves;
  std::vector<Part> level(leaves);
  for (std::size_t i = 0; i < leaves; ++i) {
    level[i] = i < folded ? join(parts[2 * i], parts[2 * i + 1]) : parts[i + folded];
  }
  while (level.size() > 1) {
    for (std::size_t i = 0; i < level.size() / 2; ++i) level[i] = join(level[2 * i], level[2 * i + 1]);
    level.resize(level.size() / 2);
  }
  return level[0];
}

}  // namespace

Payload::Payload(const Scenario& scenario) : scenario_(scenario) {
  const Seating seating(scenario.machines.members, 0,
                        scenario.machines.over == Over::boards ? scenario.options.seats : 0);
  for (int board = 0; board < seating.boards(); ++board) boards_.push_back(seating.at(board));
}

std::uint64_t Payload::value(int rank, std::uint64_t step) const {
  return random_bits(scenario_.seed, static_cast<std::uint64_t>(rank), step);
}

float Payload::real(int rank, std::int64_t sum, std::size_t factor) const {
  const std::uint64_t exponent = random_bits(scenario_.seed, kExponentStream, static_cast<std::uint64_t>(rank));
  const auto odd = static_cast<std::int64_t>(2 * factor + 1);
  return std::ldexp(static_cast<float>(sum * odd), static_cast<int>(exponent % kExponents));
}

void Payload::fill(Contribution& contribution, int rank, std::uint64_t step, std::size_t first, std::size_t end) const {
  const std::uint64_t value = this->value(rank, step);
  std::array<float, kFactors> reals{};
  for (std::size_t i = 0; i < kFactors && is_real(); ++i) reals[i] = real(rank, small(value), i);
  for (std::size_t b = first; b < end; ++b) {
    if (is_real()) {
      const auto elements = contribution.as<float>(static_cast<int>(b));
      for (std::size_t j = 0; j < elements.size(); ++j) elements[j] = reals[(j + b) % kFactors];
    } else {
      const auto elements = contribution.as<std::uint64_t>(static_cast<int>(b));
      for (std::size_t j = 0; j < elements.size(); ++j) elements[j] = element(value, b, j);
    }
  }
}

RoundSum::RoundSum(const Scenario& scenario, const Payload& payload) : payload_(&payload) {
  if (!payload.is_real()) return;
  brought_.resize(static_cast<std::size_t>(scenario.ranks));
  smalls_.resize(static_cast<std::size_t>(scenario.ranks));
}

void RoundSum::take(int rank, std::uint64_t value) {
  integers_ += value;
  if (!payload_->is_real()) return;
  brought_[static_cast<std::size_t>(rank)] = true;
  smalls_[static_cast<std::size_t>(rank)] += Payload::small(value);
}

void RoundSum::settle() {
  if (!payload_->is_real()) return;
  for (std::size_t factor = 0; factor < Payload::kFactors; ++factor) {
    std::vector<Part> boards;
    for (const std::vector<int>& ranks : payload_->boards()) {
      std::vector<Part> parts;
      for (const int rank : ranks) {
        const auto r = static_cast<std::size_t>(rank);
        parts.push_back(brought_[r] ? Part(payload_->real(rank, smalls_[r], factor)) : std::nullopt);
      }
      boards.push_back(tree(parts));
    }
    reals_[factor] = tree(boards).value_or(0.0f);
  }
}

std::uint64_t RoundSum::first() const {
  return payload_->is_real() ? std::bit_cast<std::uint32_t>(reals_[0]) : integers_;
}

bool RoundSum::is(std::size_t bucket, std::span<const std::byte> got) const {
  return payload_->is_real() ? is_real_sum(bucket, got) : is_integer_sum(bucket, got);
}

bool RoundSum::is_integer_sum(std::size_t bucket, std::span<const std::byte> got) const {
  const auto* elements = reinterpret_cast<const std::uint64_t*>(got.data());
  std::uint64_t wrong = 0;
  for (std::size_t j = 0; j < got.size() / sizeof(std::uint64_t); ++j) {
    wrong |= elements[j] ^ Payload::element(integers_, bucket, j);
  }
  return wrong == 0;
}

bool RoundSum::is_real_sum(std::size_t bucket, std::span<const std::byte> got) const {
  std::size_t factor = bucket % Payload::kFactors;
  for (std::size_t at = 0; at < got.size(); at += sizeof(float)) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, got.data() + at, sizeof bits);
    if (bits != std::bit_cast<std::uint32_t>(reals_[factor])) return false;
    factor = factor + 1 == Payload::kFactors ? 0 : factor + 1;
  }
  return true;
}

std::uint64_t first_bits(std::span<const std::byte> bucket, DataType type) {
  std::uint64_t bits = 0;
  if (!bucket.empty()) std::memcpy(&bits, bucket.data(), size_of(type));
  return bits;
}

}  // namespace stretto
