#include "stretto/kernel/kernels.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "stretto/base/error.h"

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

}  // namespace
}  // namespace stretto
