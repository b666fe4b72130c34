#include "stretto/kernel/kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/random.h"
#include "stretto/kernel/testing/bytes.h"

namespace stretto {
namespace {

TEST(Kernels, PlainOnesAreAlwaysThere) {
  const auto all = available_kernels();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.front(), &kPlainKernels);
  EXPECT_STREQ(all.front()->name, "plain");
}

TEST(Kernels, TablesAreComplete) {
  for (const Kernels* kernels : available_kernels()) {
    for (int type = 0; type < Kernels::kNumTypes; ++type) {
      for (int op = 0; op < Kernels::kNumOps; ++op) {
        for (int shape = 0; shape < Kernels::kNumShapes; ++shape) {
          const bool there = reduces(static_cast<DataType>(type), static_cast<ReduceOp>(op));
          EXPECT_EQ(kernels->cached[type][op][shape] != nullptr, there) << type << ' ' << op;
          EXPECT_EQ(kernels->streaming[type][op][shape] != nullptr, there) << type << ' ' << op;
        }
      }
    }
  }
}

/// Runs in a process of its own: the choice is made once.
[[noreturn]] void print_choice(const char* wanted) {
  setenv("STRETTO_KERNELS", wanted, 1);
  try {
    std::fprintf(stderr, "uses %s", kernels_in_use().name);
  } catch (const UsageError& e) {
    std::fprintf(stderr, "%s", e.what());
  }
  std::exit(0);
}

TEST(KernelsDeathTest, TheEnvironmentChooses) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const Kernels* kernels : available_kernels()) {
    EXPECT_EXIT(print_choice(kernels->name), ::testing::ExitedWithCode(0), std::string("uses ") + kernels->name);
  }
  EXPECT_EXIT(print_choice(""), ::testing::ExitedWithCode(0), std::string("uses ") + available_kernels().back()->name);
  EXPECT_EXIT(print_choice("abacus"), ::testing::ExitedWithCode(0), "STRETTO_KERNELS=abacus; .*plain");
}

constexpr DataType kHalves[] = {DataType::bfloat16, DataType::float16};

std::vector<std::uint16_t> every_half() {
  std::vector<std::uint16_t> all(1 << 16);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  return all;
}

std::uint32_t widened(DataType type, std::uint16_t bits) {
  return std::bit_cast<std::uint32_t>(type == DataType::bfloat16 ? to_float(BFloat16{bits}) : to_float(Float16{bits}));
}

std::uint16_t narrowed(DataType type, float x) {
  return type == DataType::bfloat16 ? to_bfloat16(x).bits : to_float16(x).bits;
}

TEST(Convert, WidensEveryHalfWithAllKernels) {
  auto halves = every_half();
  for (const Kernels* kernels : available_kernels()) {
    for (const DataType type : kHalves) {
      std::vector<std::uint32_t> out(halves.size());
      kernels->widen[type == DataType::bfloat16 ? 0 : 1](bytes(out), bytes(halves), halves.size());
      for (std::size_t i = 0; i < out.size(); ++i) {
        ASSERT_EQ(out[i], widened(type, halves[i])) << kernels->name << ' ' << name_of(type) << ' ' << i;
      }
    }
  }
}

TEST(Convert, NarrowsToTheNearestWithAllKernels) {
  // Every upper half of a float, with lower halves below, on and above a tie of both types, and some drawn ones.
  std::vector<std::uint32_t> floats;
  Random random(3);
  for (std::uint32_t upper = 0; upper < 1 << 16; ++upper) {
    for (const std::uint32_t lower :
         {0x0000u, 0x0fffu, 0x1000u, 0x1001u, 0x3000u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      floats.push_back(upper << 16 | lower);
    }
    floats.push_back(upper << 16 | static_cast<std::uint32_t>(random.below(1 << 16)));
  }
  for (const Kernels* kernels : available_kernels()) {
    for (const DataType type : kHalves) {
      std::vector<std::uint16_t> out(floats.size());
      kernels->narrow[type == DataType::bfloat16 ? 0 : 1](bytes(out), bytes(floats), floats.size());
      for (std::size_t i = 0; i < out.size(); ++i) {
        ASSERT_EQ(out[i], narrowed(type, std::bit_cast<float>(floats[i])))
            << kernels->name << ' ' << name_of(type) << ' ' << std::hex << floats[i];
      }
    }
  }
}

TEST(Convert, TakesAnyNumberAtAnyAddress) {
  for (const DataType type : kHalves) {
    for (std::size_t count = 0; count < 70; ++count) {
      for (const std::size_t shift : {0u, 1u}) {
        std::vector<float> floats(count), back(count + 1, -1.0f);
        for (std::size_t i = 0; i < count; ++i) floats[i] = static_cast<float>(i) - 3;
        std::vector<std::byte> halves(2 * count + 3, std::byte{0xab});
        narrow(type, halves.data() + shift, floats.data(), count);
        EXPECT_EQ(halves[2 * count + shift], std::byte{0xab}) << "written behind the last of " << count;
        widen(type, back.data(), halves.data() + shift, count);
        EXPECT_EQ(back.back(), -1.0f) << "written behind the last of " << count;
        back.pop_back();
        EXPECT_EQ(back, floats) << name_of(type) << ' ' << count;
      }
    }
  }
}

}  // namespace

}  // namespace stretto
