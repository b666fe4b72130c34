#include "workloads/csv_table.h"

#include <gmock/gmock.h>

namespace stretto {
namespace {

using testing::ElementsAre;

TEST(ParseCsv, ReadsRows) {
  const auto table = parse_csv("1,2.5,-3\n4,5,6e2\r\n", "x.csv");
  ASSERT_TRUE(table.ok()) << table.error().message;
  EXPECT_EQ(table->columns, 3u);
  EXPECT_EQ(table->rows(), 2u);
  EXPECT_THAT(table->values, ElementsAre(1, 2.5F, -3, 4, 5, 600));
  EXPECT_EQ(table->row(1)[2], 600);
}

TEST(ParseCsv, NamesLineAndColumn) {
  EXPECT_EQ(parse_csv("1,2\n3\n", "x.csv").error().message, "x.csv:2: 1 columns; expected 2 as on the first line");
  EXPECT_EQ(parse_csv("1,2\n3,four\n", "x.csv").error().message, "x.csv:2: column 2 is not a number");
  EXPECT_EQ(parse_csv("1,2\n\n3,4\n", "x.csv").error().message, "x.csv:2: column 1 is not a number");
  EXPECT_EQ(parse_csv("1,inf\n", "x.csv").error().message, "x.csv:1: column 2 is not a number");
  ASSERT_TRUE(parse_csv("", "x.csv").ok());
  EXPECT_EQ(parse_csv("", "x.csv")->rows(), 0u);
}

}  // namespace
}  // namespace stretto
