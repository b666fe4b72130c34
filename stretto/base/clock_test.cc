#include "stretto/base/clock.h"

#include <gtest/gtest.h>

#include "stretto/base/error.h"
#include "stretto/base/random.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

TEST(Duration, IsReadInEveryUnit) {
  EXPECT_EQ(parse_duration("200ms"), 200ms);
  EXPECT_EQ(parse_duration("1.5s"), 1500ms);
  EXPECT_EQ(parse_duration("50us"), 50us);
  EXPECT_EQ(parse_duration("50µs"), 50us);
  EXPECT_EQ(parse_duration("300ns"), 300ns);
  EXPECT_EQ(parse_duration(".5ms"), 500us);
  EXPECT_EQ(parse_duration("1e-3s"), 1ms);
  EXPECT_EQ(parse_duration("0"), 0ns);
  EXPECT_EQ(parse_duration("0s"), 0ns);
}

TEST(Duration, IsRefusedWhenItIsNone) {
  for (const char* wrong : {"", "5", "ms", "5 ms", "5m", "5MS", "-1ms", "nans", "infs", "nan", "1..2s", "5msx", "+5ms",
                            "1e300s", "864001s", "0x5s"}) {
    EXPECT_EQ(parse_duration(wrong), std::nullopt) << wrong;
  }
}

TEST(Duration, AMistakeIsNamed) {
  EXPECT_EQ(require_duration("pace", "50us"), 50us);
  try {
    require_duration("pace", "50");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(),
                 "pace '50' is no length of time: expected a number and ns, us, ms, s, min or h, at most 10 "
                 "days, such as 20ms");
  }
}

TEST(Duration, IsWrittenShortAndReadBackExactly) {
  EXPECT_EQ(to_text(0ns), "0s");
  EXPECT_EQ(to_text(999ns), "999ns");
  EXPECT_EQ(to_text(1500us), "1.5ms");
  EXPECT_EQ(to_text(200ms), "200ms");
  EXPECT_EQ(to_text(90s), "90s");
  Random random(1);
  for (int i = 0; i < 5000; ++i) {
    const Duration drawn{static_cast<std::int64_t>(random.log_uniform(1, 800'000'000'000'000))};
    EXPECT_EQ(parse_duration(to_text(drawn)), drawn) << to_text(drawn);
  }
}

}  // namespace
}  // namespace stretto
