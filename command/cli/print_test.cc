#include "command/cli/print.h"

#include <gtest/gtest.h>

namespace stretto::command {
namespace {

TEST(OneLine, EscapesWhatWouldBreakIt) {
  EXPECT_EQ(one_line("--seed 1\n2\t\x1b: größer"), "--seed 1\\n2\\t\\x1b: größer");
}

TEST(OneLine, CutsWhatNobodyReads) {
  EXPECT_EQ(one_line("--seed " + std::string(5000, '7') + ": expected"),
            "--seed " + std::string(60, '7') + "… (5000 characters): expected");
}

}  // namespace
}  // namespace stretto::command
