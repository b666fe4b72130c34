#include "command/cli/output.h"

#include <gtest/gtest.h>

namespace stretto::command {
namespace {

TEST(OneLine, EscapesWhatWouldBreakIt) {
  EXPECT_EQ(one_line("--seed 1\n2\t\x1b: größer"), "--seed 1\\n2\\t\\x1b: größer");
  EXPECT_EQ(one_line("\xff\xc3 \xc3\xa4 \xe2\x82 \xe2\x82\xac \x80"), "\\xff\\xc3 ä \\xe2\\x82 € \\x80") << "no UTF-8";
}

TEST(OneLine, CutsWhatNobodyReads) {
  EXPECT_EQ(one_line("--seed " + std::string(5000, '7') + ": expected"),
            "--seed " + std::string(60, '7') + "… (5000 characters): expected");
}

}  // namespace
}  // namespace stretto::command
