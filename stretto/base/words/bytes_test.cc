#include "stretto/base/words/bytes.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

TEST(BytesFromText, ReadsSizes) {
  EXPECT_EQ(bytes_from_text("64"), 64u);
  EXPECT_EQ(bytes_from_text("4KiB"), 4096u);
  EXPECT_EQ(bytes_from_text("4 M"), 4u << 20);
  EXPECT_EQ(bytes_from_text("1.5GiB"), 3u << 29);
  EXPECT_EQ(bytes_from_text("2kB"), 2000u);
  for (const char* wrong : {"", "MiB", "-1", "1.5", "4XiB", "nan", "1e300GiB"}) {
    EXPECT_EQ(bytes_from_text(wrong), std::nullopt) << wrong;
  }
}

}  // namespace
}  // namespace stretto
