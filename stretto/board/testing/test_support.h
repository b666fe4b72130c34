#pragma once

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "stretto/base/doorbell.h"
#include "stretto/base/random.h"
#include "stretto/kernel/combine.h"

namespace stretto {

/// For tests: memory as a board wants it, zero and aligned to pages.
class ZeroMemory {
 public:
  explicit ZeroMemory(std::uint64_t bytes) : bytes_((bytes + kPage - 1) / kPage * kPage) {
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, bytes_)));
    std::memset(data_.get(), 0, bytes_);
  }
  std::span<std::byte> bytes() const { return {data_.get(), bytes_}; }

 private:
  static constexpr std::uint64_t kPage = 4096;
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::uint64_t bytes_;
  std::unique_ptr<std::byte, Free> data_;
};

/// For tests: the doorbells of ranks that are threads of this process.
class Doorbells {
 public:
  explicit Doorbells(int ranks) : words_(static_cast<std::size_t>(ranks)) {}
  Doorbell at(int rank) { return Doorbell(words_[static_cast<std::size_t>(rank)], true); }
  void ring(int rank) { at(rank).ring(); }

 private:
  std::vector<DoorbellWords> words_;
};

/// Sleeps as a rank does that has looked for work in vain. Returns whether the sleep was no lost wake-up: it may end
/// without a ring, but not after that long. `signal`: the word it sleeps on, too; its value before it looked.
inline bool sleeps_well(Doorbell& bell, std::uint32_t seen, Doorbell::Sleeper who, FutexWait signal = {}) {
  constexpr auto kLost = std::chrono::seconds(20);
  const auto begin = std::chrono::steady_clock::now();
  bell.sleep(seen, who, kLost, signal);
  return bell.rings() != seen || (signal.word != nullptr && signal.word->load() != signal.seen) ||
         std::chrono::steady_clock::now() - begin < kLost;
}

/// A board's word as it is now, if ranks sleep on one.
inline FutexWait look_at(std::atomic<std::uint32_t>* signal) {
  return {signal, signal == nullptr ? 0 : signal->load()};
}

using Bytes = std::vector<std::byte>;

template <class T>
Bytes bytes_of(std::span<const T> numbers) {
  const auto bytes = std::as_bytes(numbers);
  return {bytes.begin(), bytes.end()};
}

/// `count` numbers with sums that depend on their order; for minima and maxima both zeros and NaN, too.
inline Bytes random_numbers(Random& random, DataType type, ReduceOp op, std::uint64_t count) {
  Bytes out(count * size_of(type));
  const auto number = [&]() -> double {
    if (op != ReduceOp::sum) {
      switch (random.below(8)) {
        case 0: return 0.0;
        case 1: return -0.0;
        case 2: return std::numeric_limits<double>::quiet_NaN();
        default: break;
      }
    }
    return std::ldexp(random.normal(), static_cast<int>(random.between(-6, 6)));
  };
  const auto put = [&](std::uint64_t i, auto value) {
    std::memcpy(out.data() + i * sizeof value, &value, sizeof value);
  };
  for (std::uint64_t i = 0; i < count; ++i) {
    switch (type) {
      case DataType::float32: put(i, static_cast<float>(number())); break;
      case DataType::float64: put(i, number()); break;
      case DataType::int32: put(i, static_cast<std::uint32_t>(random.bits())); break;
      case DataType::int64: put(i, random.bits()); break;
      case DataType::bfloat16: put(i, to_bfloat16(static_cast<float>(number()))); break;
      case DataType::float16: put(i, to_float16(static_cast<float>(number()))); break;
    }
  }
  return out;
}

/// The fixed tree (docs/protocol.md, Bits) by plain reduce() of two at a time; a rank without a contribution changes
/// nothing. `inputs`: by rank.
inline std::optional<Bytes> by_fixed_tree(DataType type, ReduceOp op, std::vector<std::optional<Bytes>> inputs) {
  const auto join = [&](std::optional<Bytes> lower, std::optional<Bytes> upper) {
    if (!lower) return upper;
    if (upper) reduce(type, op, lower->data(), lower->data(), upper->data(), lower->size() / size_of(type));
    return lower;
  };
  std::size_t power = 1;
  while (2 * power <= inputs.size()) power *= 2;
  const std::size_t folded = inputs.size() - power;
  std::vector<std::optional<Bytes>> values;
  for (std::size_t i = 0; i < power; ++i) {
    values.push_back(i < folded ? join(inputs[2 * i], inputs[2 * i + 1]) : inputs[i + folded]);
  }
  for (std::size_t distance = 1; distance < power; distance *= 2) {
    for (std::size_t i = 0; i < power; i += 2 * distance) values[i] = join(values[i], values[i + distance]);
  }
  return values[0];
}

}  // namespace stretto
