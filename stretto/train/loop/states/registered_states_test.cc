#include "stretto/train/loop/states/registered_states.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "stretto/base/error.h"

namespace stretto {
namespace {

TEST(RegisteredStates, GoToARankThatHasTheSameNames) {
  constexpr std::string_view with_zeros("a\0b\n", 4);
  std::string first, second = "old", third = "old";
  const auto none = [] { return std::string(); };
  RegisteredStates of_others, here;
  of_others.add(
      "first", [&] { return std::string(with_zeros); }, [](const std::string&) {});
  of_others.add("second", none, [](const std::string&) {});
  of_others.add(
      "third", [] { return std::string(70'000, 'x'); }, [](const std::string&) {});
  here.add("first", none, [&](const std::string& content) { first = content; });
  here.add("second", none, [&](const std::string& content) { second = content; });
  here.add("third", none, [&](const std::string& content) { third = content; });
  EXPECT_EQ(here.describe(), of_others.describe());
  here.load(of_others.save());
  EXPECT_EQ(first, with_zeros);
  EXPECT_EQ(second, "");
  EXPECT_EQ(third, std::string(70'000, 'x'));
}

TEST(RegisteredStates, HaveNamesOfTheirOwn) {
  RegisteredStates states, others;
  const auto save = [] { return std::string(); };
  const auto load = [](const std::string&) {};
  states.add("a b", save, load);
  for (const char* name : {"", "a\nb", "a b"}) EXPECT_THROW(states.add(name, save, load), UsageError) << name;
  EXPECT_THROW(states.add("c", {}, load), UsageError);
  EXPECT_THROW(states.add("c", save, {}), UsageError);
  others.add("a", save, load);
  EXPECT_NE(states.describe(), others.describe());
}

}  // namespace
}  // namespace stretto
