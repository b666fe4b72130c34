#include "command/run/places/rank_range.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "stretto/base/error.h"

namespace stretto::command {
namespace {

TEST(RankRange, IsANumberOrTwo) {
  const RankRange number = parse_rank_range("--ranks", "1024");
  EXPECT_EQ(number.least, 1024);
  EXPECT_EQ(number.most, 1024);
  EXPECT_FALSE(number.is_range);
  const RankRange range = parse_rank_range("--ranks", "2:8");
  EXPECT_EQ(range.least, 2);
  EXPECT_EQ(range.most, 8);
  EXPECT_TRUE(range.is_range);
  EXPECT_TRUE(parse_rank_range("--ranks", "4:4").is_range);
}

TEST(RankRange, RefusesWhatIsNone) {
  for (const char* text : {"", "0", "-1", "abc", "1025", "4x", " 4", ":", "2:", ":8", "0:8", "2:1025", "2:4:8"}) {
    EXPECT_THROW((void)parse_rank_range("--ranks", text), UsageError) << text;
  }
  const auto why_not = [](const char* text) -> std::string {
    try {
      (void)parse_rank_range("--ranks", text);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "it is one";
  };
  EXPECT_EQ(why_not("8:2"), "--ranks 8:2: expected the least number before the greatest, as in --ranks 2:8");
  EXPECT_EQ(why_not("2:"), "--ranks 2:: expected MIN:MAX, two numbers from 1 to 1024, as in --ranks 2:8");
  EXPECT_EQ(why_not("2:4:8"), "--ranks 2:4:8: expected MIN:MAX, two numbers from 1 to 1024, as in --ranks 2:8");
}

}  // namespace
}  // namespace stretto::command
