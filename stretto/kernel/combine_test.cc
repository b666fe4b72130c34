#include "stretto/kernel/combine.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <ostream>
#include <span>
#include <type_traits>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/random.h"

namespace stretto {

void PrintTo(const Kernels* kernels, std::ostream* out) {
  *out << kernels->name;
}

namespace {

constexpr DataType kTypes[] = {DataType::float32, DataType::float64,  DataType::int32,
                               DataType::int64,   DataType::bfloat16, DataType::float16};
constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::min, ReduceOp::max};  // of every type
constexpr ReduceOp kOpsOfIntegers[] = {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::bit_and};

std::span<const ReduceOp> ops_of(DataType type) {
  if (reduces(type, ReduceOp::bit_and)) return kOpsOfIntegers;
  return kOps;
}

/// Around the sizes of vectors, lines and blocks.
constexpr std::uint64_t kCounts[] = {1,  2,  3,  5,   7,   8,   13,  16,   31,   33,
                                     63, 64, 65, 127, 129, 255, 511, 1000, 1025, 4099};

using Memory = std::vector<std::byte>;

// The oracle: one element after the other, by the definition.

template <class T>
bool is_nan(T x) {
  if constexpr (std::is_integral_v<T>) {
    return false;
  } else if constexpr (std::is_floating_point_v<T>) {
    return x != x;
  } else {
    return to_float(x) != to_float(x);
  }
}

template <class T>
T combined(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::min: return a < b || is_nan(a) ? a : b;
    case ReduceOp::max: return a > b || is_nan(a) ? a : b;
    case ReduceOp::bit_and:
      if constexpr (std::is_integral_v<T>) return a & b;
      break;
    case ReduceOp::sum: break;
  }
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  } else {
    return a + b;
  }
}

template <class T>
Memory combined_all(const Combination& combination, ReduceOp op, const std::vector<Memory>& sources) {
  Memory out(sources[0].size());
  for (std::size_t at = 0; at < out.size(); at += sizeof(T)) {
    std::vector<T> stack;
    for (const auto word : combination.program()) {
      T value;
      if (word == Combination::kCombine) {
        const T upper = stack.back();
        stack.pop_back();
        value = combined(op, stack.back(), upper);
        stack.pop_back();
      } else {
        std::memcpy(&value, sources[word].data() + at, sizeof(T));
      }
      stack.push_back(value);
    }
    std::memcpy(out.data() + at, &stack.back(), sizeof(T));
  }
  return out;
}

Memory expected(const Combination& combination, DataType type, ReduceOp op, const std::vector<Memory>& sources) {
  switch (type) {
    case DataType::float32: return combined_all<float>(combination, op, sources);
    case DataType::float64: return combined_all<double>(combination, op, sources);
    case DataType::int32: return combined_all<std::int32_t>(combination, op, sources);
    case DataType::int64: return combined_all<std::int64_t>(combination, op, sources);
    case DataType::bfloat16: return combined_all<BFloat16>(combination, op, sources);
    case DataType::float16: return combined_all<Float16>(combination, op, sources);
  }
  return {};
}

// Numbers to combine.

struct Layout {
  int fraction_bits;
  int exponent_bits;
};

Layout layout_of(DataType type) {
  switch (type) {
    case DataType::float32: return {23, 8};
    case DataType::float64: return {52, 11};
    case DataType::bfloat16: return {7, 8};
    case DataType::float16: return {10, 5};
    case DataType::int32:
    case DataType::int64: break;
  }
  return {0, 0};
}

/// The bits of a number: any integer; floats of all exponents, often close to 1 so that sums round, ±0, ±∞. NaN of any
/// payload only with `any_nan`; else the one that processors make, with the sign they give it, since which of two NaNs
/// a sum keeps is open.
std::uint64_t draw(Random& random, DataType type, bool any_nan) {
  const std::uint64_t bits = random.bits();
  const int fraction_bits = layout_of(type).fraction_bits, exponent_bits = layout_of(type).exponent_bits;
  if (fraction_bits == 0) return random.chance(0.3) ? random.below(3) - 1 : bits;
  const std::uint64_t sign = (bits >> 63) << (fraction_bits + exponent_bits);
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << fraction_bits) - 1);
  const std::uint64_t special = (std::uint64_t{1} << exponent_bits) - 1;
  const auto number = [&](std::uint64_t exponent, std::uint64_t f) { return sign | exponent << fraction_bits | f; };
  switch (random.below(16)) {
    case 0: return number(0, 0);
    case 1: return number(0, fraction);
    case 2: return number(special, 0);
    case 3: {
      if (any_nan) return number(special, fraction | 1);
      const std::uint64_t made = std::uint64_t{1} << (fraction_bits + exponent_bits);
      return made | special << fraction_bits | std::uint64_t{1} << (fraction_bits - 1);
    }
    case 4:
    case 5:
    case 6: return number(random.below(special), fraction);
    default: return number(special / 2 + random.below(5), fraction);
  }
}

/// Bytes at any address, between others that must stay as they are.
class Placed {
 public:
  Placed(std::size_t bytes, std::size_t misaligned)
      : bytes_(bytes), memory_(bytes + 3 * kGuard + misaligned, kUntouched) {
    const auto past_line = reinterpret_cast<std::uintptr_t>(memory_.data()) % kGuard;
    at_ = 2 * kGuard - past_line + misaligned;
  }
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;

  std::byte* data() { return memory_.data() + at_; }
  void write(const Memory& bytes) { std::memcpy(data(), bytes.data(), bytes_); }
  Memory read() { return Memory(data(), data() + bytes_); }
  bool untouched_around() const {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      if ((i < at_ || i >= at_ + bytes_) && memory_[i] != kUntouched) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr std::byte kUntouched{0xcb};
  std::size_t bytes_;
  Memory memory_;
  std::size_t at_ = 0;
};

Memory random_numbers(Random& random, DataType type, std::uint64_t count, bool any_nan) {
  Memory out(count * size_of(type));
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t bits = draw(random, type, any_nan);
    std::memcpy(out.data() + i * size_of(type), &bits, size_of(type));
  }
  return out;
}

struct Case {
  const Combination& combination;
  DataType type;
  ReduceOp op;
  std::uint64_t count;
  std::size_t misaligned = 0;  ///< at most; each buffer differently
  Stores stores = Stores::cached;
  int in_place = -1;  ///< dst is this source
};

class CombineTest : public ::testing::TestWithParam<const Kernels*> {
 protected:
  void expect_right(const Case& c, std::uint64_t seed = 1) {
    Random random(seed);
    const bool any_nan = c.op != ReduceOp::sum;
    const auto n = static_cast<std::size_t>(c.combination.num_sources());
    std::vector<Memory> numbers;
    std::deque<Placed> sources;
    std::vector<const std::byte*> pointers;
    for (std::size_t i = 0; i < n; ++i) {
      numbers.push_back(random_numbers(random, c.type, c.count, any_nan));
      sources.emplace_back(c.count * size_of(c.type), random.below(c.misaligned + 1));
    }
    for (std::size_t i = 0; i < n; ++i) {
      sources[i].write(numbers[i]);
      pointers.push_back(sources[i].data());
    }
    Placed own(c.count * size_of(c.type), random.below(c.misaligned + 1));
    Placed& dst = c.in_place < 0 ? own : sources[static_cast<std::size_t>(c.in_place)];
    combine(*GetParam(), c.combination, c.type, c.op, dst.data(), pointers, c.count, c.stores);
    const auto where = [&] {
      return text(name_of(c.type), ' ', name_of(c.op), ", ", n, " sources of ", c.count, ", misaligned ", c.misaligned,
                  c.stores == Stores::streaming ? ", streaming" : "", ", in place ", c.in_place, ", seed ", seed);
    };
    ASSERT_TRUE(dst.read() == expected(c.combination, c.type, c.op, numbers)) << where();
    ASSERT_TRUE(dst.untouched_around()) << where();
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_TRUE(static_cast<int>(i) == c.in_place || sources[i].read() == numbers[i]) << where();
    }
  }
};

TEST_P(CombineTest, EveryTypeOperationAndCount) {
  for (const int n : {2, 4, 8, 11}) {
    const auto tree = Combination::tree(n), chain = Combination::chain(n);
    for (const DataType type : kTypes) {
      for (const ReduceOp op : ops_of(type)) {
        for (const std::uint64_t count : kCounts) {
          expect_right({tree, type, op, count});
          expect_right({chain, type, op, count});
        }
      }
    }
  }
}

TEST_P(CombineTest, TreesAndChainsOfAnySize) {
  for (int n = 1; n <= 33; ++n) {
    const auto tree = Combination::tree(n), chain = Combination::chain(n);
    for (const DataType type : kTypes) {
      for (const ReduceOp op : ops_of(type)) {
        for (const Combination* combination : {&tree, &chain}) {
          expect_right({*combination, type, op, 77}, static_cast<std::uint64_t>(n));
          expect_right({*combination, type, op, 2}, static_cast<std::uint64_t>(n));
        }
      }
    }
  }
}

TEST_P(CombineTest, ManySourcesThroughManyBlocks) {
  for (const int n : {64, 100, 513}) {
    const auto tree = Combination::tree(n), chain = Combination::chain(n);
    expect_right({tree, DataType::float32, ReduceOp::sum, 3001});
    expect_right({chain, DataType::float64, ReduceOp::sum, 1501});
  }
}

TEST_P(CombineTest, AnyAddressAndAnyStores) {
  const auto tree = Combination::tree(9), chain = Combination::chain(3), one = Combination::tree(1);
  Random random(5);
  for (int i = 0; i < 1500; ++i) {
    const DataType type = kTypes[random.below(6)];
    const Combination& combination = random.chance(0.5) ? tree : random.chance(0.8) ? chain : one;
    expect_right({.combination = combination,
                  .type = type,
                  .op = ops_of(type)[random.below(ops_of(type).size())],
                  .count = random.log_uniform(1, 5000),
                  .misaligned = random.chance(0.5) ? 70u : 0u,
                  .stores = random.chance(0.7) ? Stores::streaming : Stores::cached},
                 random.bits());
  }
}

TEST_P(CombineTest, InPlaceOfEachSource) {
  const auto tree = Combination::tree(33), chain = Combination::chain(33);
  for (const Combination* combination : {&tree, &chain}) {
    for (int i = 0; i < combination->num_sources(); ++i) {
      for (const Stores stores : {Stores::cached, Stores::streaming}) {
        expect_right({*combination, DataType::float32, ReduceOp::sum, 2111, 64, stores, i});
        expect_right({*combination, DataType::bfloat16, ReduceOp::sum, 2111, 64, stores, i});
        expect_right({*combination, DataType::float16, ReduceOp::min, 99, 64, stores, i});
      }
    }
  }
}

TEST_P(CombineTest, EveryHalfWithSpecialOnes) {
  // All bit patterns against some that are special in one of the two.
  const auto pair = Combination::tree(2);
  for (const DataType type : {DataType::bfloat16, DataType::float16}) {
    for (const ReduceOp op : kOps) {
      for (const std::uint16_t other : {0x0000, 0x8000, 0x0001, 0x8001, 0x0400, 0x3c00, 0x3f80, 0xbf81, 0x7bff, 0x7c00,
                                        0xfc00, 0x7f7f, 0x7f80, 0xff80}) {
        const int infinity = type == DataType::float16 ? 0x7c00 : 0x7f80;
        if (op == ReduceOp::sum && (other & 0x7fff) > infinity) continue;  // NaN meets NaN
        std::vector<Memory> sources(2, Memory(0x10000 * 2));
        for (std::uint32_t i = 0; i <= 0xffff; ++i) {
          std::memcpy(sources[0].data() + 2 * i, &i, 2);
          std::memcpy(sources[1].data() + 2 * i, &other, 2);
        }
        const std::byte* pointers[] = {sources[0].data(), sources[1].data()};
        Memory dst(sources[0].size());
        combine(*GetParam(), pair, type, op, dst.data(), pointers, 0x10000);
        ASSERT_TRUE(dst == expected(pair, type, op, sources))
            << name_of(type) << ' ' << name_of(op) << " with " << other;
      }
    }
  }
}

/// All elements of a source, and whether all elements are NaN.
Memory filled_with(DataType type, std::uint64_t bits, std::uint64_t count) {
  Memory memory(count * size_of(type));
  for (std::uint64_t i = 0; i < count; ++i) std::memcpy(&memory[i * size_of(type)], &bits, size_of(type));
  return memory;
}

bool all_nan(DataType type, const Memory& memory) {
  const Layout layout = layout_of(type);
  const std::uint64_t sign = std::uint64_t{1} << (layout.fraction_bits + layout.exponent_bits);
  const std::uint64_t infinity = sign - (std::uint64_t{1} << layout.fraction_bits);
  for (std::size_t at = 0; at < memory.size(); at += size_of(type)) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &memory[at], size_of(type));
    if ((bits & (sign - 1)) <= infinity) return false;
  }
  return true;
}

TEST_P(CombineTest, ANaNStaysWhicheverSourceItComesFrom) {
  constexpr std::uint64_t kCount = 133;  // whole vectors, and what is left
  for (const DataType type : {DataType::float32, DataType::float64, DataType::bfloat16, DataType::float16}) {
    const Layout layout = layout_of(type);
    const std::uint64_t sign = std::uint64_t{1} << (layout.fraction_bits + layout.exponent_bits);
    const std::uint64_t infinity = sign - (std::uint64_t{1} << layout.fraction_bits);
    for (const ReduceOp op : kOps) {
      for (int n = 2; n <= 5; ++n) {
        for (int odd = 0; odd < 2 * n; ++odd) {
          std::vector<Memory> sources(static_cast<std::size_t>(n), filled_with(type, sign | infinity, kCount));
          const std::uint64_t nan = (odd % 2 == 0 ? 0 : sign) | infinity | 1;
          sources[static_cast<std::size_t>(odd / 2)] = filled_with(type, nan, kCount);
          sources[static_cast<std::size_t>((odd / 2 + 1) % n)] = filled_with(type, 1, kCount);
          std::vector<const std::byte*> pointers;
          for (const Memory& source : sources) pointers.push_back(source.data());
          for (const auto& combination : {Combination::tree(n), Combination::chain(n)}) {
            Memory dst(kCount * size_of(type));
            combine(*GetParam(), combination, type, op, dst.data(), pointers, kCount);
            ASSERT_TRUE(all_nan(type, dst))
                << name_of(type) << ' ' << name_of(op) << " of " << n << ", NaN in source " << odd / 2;
          }
        }
      }
    }
  }
}

TEST_P(CombineTest, HasTheBitsOfRepeatedReduce) {
  for (int n = 2; n <= 33; ++n) {
    for (const auto& combination : {Combination::tree(n), Combination::chain(n)}) {
      for (const DataType type : kTypes) {
        for (const ReduceOp op : ops_of(type)) {
          Random random(static_cast<std::uint64_t>(n));
          constexpr std::uint64_t kCount = 37;
          std::vector<Memory> sources;
          std::vector<const std::byte*> pointers;
          for (int i = 0; i < n; ++i) sources.push_back(random_numbers(random, type, kCount, op != ReduceOp::sum));
          for (const auto& source : sources) pointers.push_back(source.data());
          Memory dst(sources[0].size());
          combine(*GetParam(), combination, type, op, dst.data(), pointers, kCount);
          std::vector<Memory> stack;
          for (const auto word : combination.program()) {
            if (word != Combination::kCombine) {
              stack.push_back(sources[word]);
              continue;
            }
            Memory upper = stack.back();
            stack.pop_back();
            if (random.chance(0.5)) {
              reduce(type, op, stack.back().data(), stack.back().data(), upper.data(), kCount);
            } else {
              reduce(type, op, upper.data(), stack.back().data(), upper.data(), kCount);
              stack.back() = upper;
            }
          }
          ASSERT_EQ(dst, stack.back()) << n << ' ' << name_of(type) << ' ' << name_of(op);
        }
      }
    }
  }
}

TEST_P(CombineTest, CopiesBytes) {
  Random random(9);
  for (int i = 0; i < 300; ++i) {
    const auto bytes = random.log_uniform(1, 100'000);
    const Memory numbers = random_numbers(random, DataType::bfloat16, (bytes + 1) / 2, true);
    Placed src(bytes, random.below(70)), dst(bytes, random.below(70));
    src.write(numbers);
    copy_bytes(*GetParam(), dst.data(), src.data(), bytes, random.chance(0.7) ? Stores::streaming : Stores::cached);
    ASSERT_EQ(dst.read(), src.read());
    ASSERT_TRUE(dst.untouched_around());
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, CombineTest,
                         ::testing::ValuesIn(available_kernels().begin(), available_kernels().end()),
                         [](const auto& info) { return info.param->name; });

TEST(Combine, NothingIsNothing) {
  std::byte* const none = nullptr;
  const std::byte* const sources[] = {nullptr, nullptr};
  combine(Combination::tree(2), DataType::float32, ReduceOp::sum, none, sources, 0);
  combine(Combination::tree(1), DataType::float32, ReduceOp::sum, none, sources, 0, Stores::streaming);
  copy_bytes(none, none, 0, Stores::streaming);
}

TEST(Combine, RefusesTooFewSources) {
  std::byte dst[4];
  const std::byte* const sources[] = {dst, dst};
  EXPECT_THROW(combine(Combination::tree(3), DataType::float32, ReduceOp::sum, dst, sources, 1), UsageError);
}

TEST(Reduce, TheNeutralElementChangesNothing) {
  for (const DataType type : kTypes) {
    for (const ReduceOp op : ops_of(type)) {
      Random random(11);
      constexpr std::uint64_t kCount = 2000;
      const Memory numbers = random_numbers(random, type, kCount, op != ReduceOp::sum);
      for (const bool first : {false, true}) {
        Memory neutral(numbers.size());
        fill_neutral(type, op, neutral.data(), kCount);
        reduce(type, op, neutral.data(), first ? neutral.data() : numbers.data(),
               first ? numbers.data() : neutral.data(), kCount);
        EXPECT_EQ(neutral, numbers) << name_of(type) << ' ' << name_of(op) << ' ' << first;
      }
    }
  }
}

TEST(Combine, RefusesAnOperationThatTheTypeDoesNotHave) {
  std::byte dst[4];
  const std::byte* const sources[] = {dst, dst};
  for (const DataType type : {DataType::float32, DataType::float64, DataType::bfloat16, DataType::float16}) {
    EXPECT_THROW(combine(Combination::tree(2), type, ReduceOp::bit_and, dst, sources, 0), UsageError);
  }
  try {
    check_reduction(DataType::float16, ReduceOp::bit_and);
    FAIL() << "not refused";
  } catch (const UsageError& e) {
    EXPECT_STREQ(e.what(), "bit_and of float16: expected int32 or int64, whose bits mean something");
  }
}

TEST(Reduce, WithoutBytesDoesNothing) {
  float x = 1;
  auto* bytes = reinterpret_cast<std::byte*>(&x);
  reduce(DataType::float32, ReduceOp::sum, bytes, bytes, nullptr, 1);
  reduce(DataType::float32, ReduceOp::sum, nullptr, nullptr, bytes, 1);
  EXPECT_EQ(x, 1);
}

}  // namespace
}  // namespace stretto
