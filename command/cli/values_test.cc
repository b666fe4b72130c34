#include "command/cli/values.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "stretto/base/error.h"

namespace stretto::command {
namespace {

using namespace std::chrono_literals;

TEST(Values, DurationsHaveAUnit) {
  EXPECT_EQ(parse_duration("--pace", "50us", ""), 50us);
  EXPECT_EQ(parse_duration("--pace", "1.5ms", ""), 1500us);
  EXPECT_EQ(parse_duration("--pace", "2s", ""), 2s);
  EXPECT_EQ(parse_duration("--life", "30min", ""), 30min);
  EXPECT_EQ(parse_duration("--life", "2h", ""), 2h);
  EXPECT_EQ(parse_duration("--pace", "0", ""), 0s);
  for (const char* bad : {"", "50", "-1ms", "1d", "ms", "nan s", "1e30s"}) {
    EXPECT_THROW(parse_duration("--pace", bad, "50us"), UsageError) << bad;
  }
}

template <class Parsing>
std::string refusal(const Parsing& parsing) {
  try {
    parsing();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "none";
}

TEST(Values, OutsideOfTheirBoundsAreToldTheBound) {
  for (const char* longer : {"1000000s", "864000.1s", "1e300s", "1e999s"}) {
    EXPECT_EQ(refusal([&] { parse_duration("--pace", longer, "50us"); }),
              std::string("--pace ") + longer + ": expected a time of at most 864000s, as in --pace 50us");
  }
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (const char* larger : {"9223372036854775808", "18446744073709551615"}) {
    EXPECT_EQ(refusal([&] { parse_integer("--seed", larger, 1, kMost, ""); }),
              std::string("--seed ") + larger + ": expected a whole number from 1 to 9223372036854775807");
  }
  EXPECT_EQ(refusal([&] { parse_integer("--seed", "-99999999999999999999", 1, kMost, ""); }),
            "--seed -99999999999999999999: expected a whole number of at least 1");
  constexpr double kNone = std::numeric_limits<double>::max();
  EXPECT_EQ(refusal([&] { parse_number("--lr", "1e999", 1, kNone, ""); }),
            "--lr 1e999: expected a number from 1 to 1.7976931348623157e+308");
  EXPECT_EQ(refusal([&] { parse_number("--lr", "0", std::numeric_limits<double>::min(), kNone, ""); }),
            "--lr 0: expected a number above 0");
}

TEST(Values, Sizes) {
  EXPECT_EQ(parse_bytes("--sizes", "64", ""), 64u);
  EXPECT_EQ(parse_bytes("--sizes", "64B", ""), 64u);
  EXPECT_EQ(parse_bytes("--sizes", "4KiB", ""), 4096u);
  EXPECT_EQ(parse_bytes("--sizes", "4 MiB", ""), 4u << 20);
  EXPECT_EQ(parse_bytes("--sizes", "4M", ""), 4u << 20);
  EXPECT_EQ(parse_bytes("--sizes", "4kB", ""), 4000u);
  EXPECT_EQ(parse_bytes("--sizes", "1.5 MB", ""), 1'500'000u);
  EXPECT_EQ(parse_bytes("--sizes", "1GB", ""), 1'000'000'000u);
  for (const char* bad : {"", "-4", "4X", "0.3", "1e99", "4mB"}) {
    EXPECT_THROW(parse_bytes("--sizes", bad, "64"), UsageError) << bad;
  }
  EXPECT_EQ(to_bytes(64), "64 B");
  EXPECT_EQ(to_bytes(4u << 20), "4 MiB");
  EXPECT_EQ(to_bytes(1000), "1000 B");
}

TEST(Values, Lists) {
  EXPECT_EQ(split_list("a,b"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(split_list("a,"), (std::vector<std::string>{"a", ""}));
  EXPECT_EQ(split_list("/bin:/usr/bin", ':'), (std::vector<std::string>{"/bin", "/usr/bin"}));
  EXPECT_TRUE(split_list("").empty());
}

TEST(Values, PoliciesMayHaveACommaOfTheirOwn) {
  EXPECT_EQ(split_policies("solo,deadline:4,20ms,full"), (std::vector<std::string>{"solo", "deadline:4,20ms", "full"}));
  EXPECT_EQ(split_policies("sync,eager-deadline:4,adaptive"),
            (std::vector<std::string>{"sync", "eager-deadline:4,adaptive"}));
  EXPECT_EQ(split_policies("sync,snyc"), (std::vector<std::string>{"sync", "snyc"}));
}

TEST(Setter, KnowsItsValues) {
  std::string text;
  EXPECT_EQ(one_of(text, {"a", "b"}).known(), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(into(text).known().empty());
  into(text, {"a"})("--x", "other");
  EXPECT_EQ(text, "other");
}

TEST(ParseFloat32Sizes, TakesWholeElementsOnly) {
  EXPECT_EQ(parse_float32_sizes("--sizes", "8,1KiB"), (std::vector<std::uint64_t>{8, 1024}));
  for (const char* list : {"", "0", "7", "8,6", "x"}) EXPECT_THROW(parse_float32_sizes("--sizes", list), UsageError);
}

}  // namespace
}  // namespace stretto::command
