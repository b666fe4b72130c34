#include "command/cli/table.h"

#include <gtest/gtest.h>

#include <limits>

namespace stretto::command {
namespace {

TEST(Table, AlignsByCharactersNotBytes) {
  Table table({"name", "t"});
  table.add({"größer", "1 ± 2"});
  table.add({"b", "33"});
  EXPECT_EQ(table.to_text(),
            "name        t\n"
            "─────────────\n"
            "größer  1 ± 2\n"
            "b          33\n");
}

TEST(Table, NumbersHaveTheDigitsThatMeanSomething) {
  EXPECT_EQ(significant(1234.5), "1234");
  EXPECT_EQ(significant(12.345), "12.3");
  EXPECT_EQ(significant(0.012345), "0.0123");
  EXPECT_EQ(significant(0), "0");
  EXPECT_EQ(significant(2.186e30), "2.19e+30");
  EXPECT_EQ(significant(std::numeric_limits<double>::quiet_NaN()), "–");
  EXPECT_EQ(percent(0.9731), "97.3 %");
  EXPECT_EQ(with_spread(12.345, 0.41), "12.3 ± 0.4");
  EXPECT_EQ(with_spread(12.345, std::numeric_limits<double>::quiet_NaN()), "12.3");
}

}  // namespace
}  // namespace stretto::command
