#include "command/report/base64.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace stretto::command {
namespace {

std::string encoded(std::string_view text) {
  return base64_of(std::span(text));
}

TEST(Base64, HasTheTestVectorsOfRfc4648) {
  EXPECT_EQ(encoded(""), "");
  EXPECT_EQ(encoded("f"), "Zg==");
  EXPECT_EQ(encoded("fo"), "Zm8=");
  EXPECT_EQ(encoded("foo"), "Zm9v");
  EXPECT_EQ(encoded("foob"), "Zm9vYg==");
  EXPECT_EQ(encoded("fooba"), "Zm9vYmE=");
  EXPECT_EQ(encoded("foobar"), "Zm9vYmFy");
}

TEST(Base64, OfNumbersHasTheirBytesInMemory) {
  EXPECT_EQ(base64_of<std::uint32_t>(std::vector<std::uint32_t>{1, 0xfffefdfc}), "AQAAAPz9/v8=");
}

}  // namespace
}  // namespace stretto::command
