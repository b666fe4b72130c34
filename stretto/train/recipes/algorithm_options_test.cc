#include "stretto/train/recipes/options/algorithm_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "stretto/base/error.h"
#include "stretto/train/recipes/recipes.h"

namespace stretto {
namespace {

std::string complaint(const std::string& name, const std::string& value) {
  try {
    AlgorithmOptions().set(name, value);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(AlgorithmOptions, GiveWhatWasSaidOrTheFallback) {
  AlgorithmOptions options{{"post-local", "20"}, {"mine", "0.5"}};
  EXPECT_TRUE(options.given("post-local"));
  EXPECT_FALSE(options.given("other"));
  EXPECT_EQ(options.count("post-local", 10), 20u);
  EXPECT_EQ(options.count("other", 10), 10u);
  EXPECT_EQ(options.number("mine", 1), 0.5);
  EXPECT_EQ(options.word("mine", ""), "0.5");
  EXPECT_EQ(options.word("other", "fallback"), "fallback");
  EXPECT_EQ(options.to_string(), "mine=0.5 post-local=20");
  constexpr std::string_view kOne[] = {"post-local"};
  options.keep_only(kOne);
  EXPECT_EQ(options.to_string(), "post-local=20");
}

TEST(AlgorithmOptions, RefuseWhatDoesNotFitAndSayWhatWould) {
  for (const char* value : {"", "-1", "1.5", "ten", "1e3", "99999999999999999999"}) {
    EXPECT_EQ(complaint("post-local", value),
              text("post-local ", value, ": expected a whole number from 0, as in post-local 1000"));
  }
  constexpr std::string_view kWords[] = {"dynamic", "fixed"};
  const AlgorithmOption word{"order", "ORDER", "", "fixed", AlgorithmOption::Kind::word, 0, 0, kWords};
  EXPECT_NO_THROW(check_value(word, "fixed"));
  EXPECT_THROW(check_value(word, "random"), UsageError);
  const AlgorithmOption number{"rate", "X", "", "0.5", AlgorithmOption::Kind::number, 0, 1};
  EXPECT_NO_THROW(check_value(number, "0.25"));
  for (const char* value : {"-0.1", "1.1", "nan", "inf", ""}) EXPECT_THROW(check_value(number, value), UsageError);
  const AlgorithmOptions own{{"mine", "many"}};
  EXPECT_THROW(own.count("mine", 1), UsageError);
  EXPECT_THROW(own.number("mine", 1), UsageError);
}

TEST(AlgorithmOptions, EachHasANameOfItsOwnAnExampleThatFitsAndAnAlgorithmThatTakesIt) {
  std::set<std::string_view> names;
  for (const AlgorithmOption& option : algorithm_options()) {
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
    EXPECT_NO_THROW(check_value(option, std::string(option.example))) << option.name;
    EXPECT_TRUE(std::ranges::any_of(recipes(), [&](const RecipeInfo& recipe) {
      return std::ranges::count(recipe.options, option.name) == 1;
    })) << option.name;
  }
  for (const RecipeInfo& recipe : recipes()) {
    for (const std::string_view name : recipe.options) EXPECT_TRUE(names.contains(name)) << recipe.name << " " << name;
  }
}

}  // namespace
}  // namespace stretto
