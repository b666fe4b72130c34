#include "stretto/train/recipes/recipes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "stretto/base/error.h"
#include "stretto/dispenser/dispenser.h"
#include "stretto/train/recipes/sync.h"

namespace stretto {
namespace {

using testing::AllOf;
using testing::HasSubstr;

RecipeInfo own(std::string_view name) {
  return {.name = name, .description = "for a test", .data = "shared", .policy = sync_policy, .make = make_sync};
}

/// What register_recipe() says, which adds nothing.
std::string refusal(const RecipeInfo& recipe) {
  const std::size_t recipes_before = recipes().size(), options_before = algorithm_options().size();
  try {
    register_recipe(recipe);
  } catch (const UsageError& error) {
    EXPECT_EQ(recipes().size(), recipes_before);
    EXPECT_EQ(algorithm_options().size(), options_before);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  return "";
}

TEST(Recipes, AreListedWithADescriptionEach) {
  ASSERT_GE(recipes().size(), 5u);
  for (const RecipeInfo& recipe : recipes()) {
    EXPECT_FALSE(recipe.description.empty()) << recipe.name;
    EXPECT_NO_THROW(parse_sharing(std::string(recipe.data))) << recipe.name;
  }
}

TEST(Recipes, ReadTheirArguments) {
  EXPECT_EQ(parse_algorithm("sync", 8).policy, Policy::full());
  EXPECT_EQ(parse_algorithm("eager-solo", 8).policy, Policy::solo());
  EXPECT_EQ(parse_algorithm("eager-majority", 8).policy, Policy::majority());
  EXPECT_EQ(parse_algorithm("eager-quorum", 7).policy, Policy::at_least(4));
  EXPECT_EQ(parse_algorithm("eager-quorum", 7, 6).policy, Policy::at_least(6));
  EXPECT_EQ(parse_algorithm("eager-quorum:2", 7, 6).policy, Policy::at_least(2));
  EXPECT_EQ(parse_algorithm("eager-deadline:6,20ms", 8).policy, Policy::deadline(6, std::chrono::milliseconds(20)));
}

TEST(Recipes, BatchesAreSharedWhereRoundsDoNotWaitForAll) {
  for (const std::uint64_t local_steps : {0, 8}) {
    RecipeInfo recipe = own("own");
    recipe.data = "partitioned";
    recipe.local_steps = local_steps;
    EXPECT_EQ(default_data(recipe, Policy::full()), "partitioned");
    EXPECT_EQ(default_data(recipe, Policy::at_least(2)), "shared");
  }
}

TEST(Recipes, OnesOwnIsKnownAsTheLibrarysAre) {
  static constexpr AlgorithmOption kOptions[] = {
      {"own-share", "X", "own: a share.", "0.5", AlgorithmOption::Kind::number, 0, 1}};
  static constexpr std::string_view kTaken[] = {"tau"};
  const RecipeInfo* sync = find_recipe("sync");
  const std::size_t library = recipes().size();
  RecipeInfo first = own("own-1");
  first.options = kTaken;
  first.own_options = kOptions;
  first.argument = "[:X]";
  register_recipe(first);
  register_recipe(own("own-2"));
  ASSERT_EQ(recipes().size(), library + 2);
  EXPECT_EQ(find_recipe("sync"), sync) << "references stay valid";
  EXPECT_EQ(find_recipe("own-1"), &recipes()[library]);
  EXPECT_EQ(algorithm_names().back(), "own-2");
  EXPECT_EQ(parse_algorithm("own-1:x", 3).argument, "x");
  EXPECT_EQ(parse_algorithm("own-2", 3).recipe, find_recipe("own-2"));
  EXPECT_THAT(find_recipe("own-1")->options, testing::ElementsAre("tau", "own-share"));
  EXPECT_THAT(find_recipe("own-2")->options, testing::IsEmpty());

  EXPECT_THROW(AlgorithmOptions({{"own-share", "2"}}), UsageError);
  try {
    parse_algorithm("own-3", 3);
    ADD_FAILURE();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("did you mean own-"), HasSubstr("sync")));
  }
}

TEST(Recipes, OnesOwnThatDoesNotFitIsRefusedInOneLine) {
  EXPECT_EQ(refusal(own("sync")), "algorithm 'sync' of one's own: the name is taken; expected another one");
  register_recipe(own("own-twice"));
  EXPECT_EQ(refusal(own("own-twice")), "algorithm 'own-twice' of one's own: the name is taken; expected another one");
  for (const char* name : {"", "a b", "a:b", "a,b", "-a", "Upper", "1st"}) {
    EXPECT_THAT(refusal(own(name)), HasSubstr("expected a name of small letters, digits and dashes")) << name;
  }
  RecipeInfo wrong = own("own-wrong");
  wrong.make = nullptr;
  EXPECT_THAT(refusal(wrong), HasSubstr("'own-wrong' of one's own: RecipeInfo::policy or RecipeInfo::make is null"));
  wrong = own("own-wrong");
  wrong.policy = nullptr;
  EXPECT_THAT(refusal(wrong), HasSubstr("is null: expected both"));
  wrong = own("own-wrong");
  wrong.data = "stolen";
  EXPECT_THAT(refusal(wrong), HasSubstr("data 'stolen': expected shared, partitioned, ring, sampled or labels:K"));

  static constexpr std::string_view kUnknown[] = {"taw"};
  wrong = own("own-wrong");
  wrong.options = kUnknown;
  EXPECT_THAT(refusal(wrong), HasSubstr("option 'taw', which there is not: did you mean tau?"));
  const auto with = [](const AlgorithmOption& option) {
    RecipeInfo recipe = own("own-wrong");
    recipe.own_options = {&option, 1};
    return refusal(recipe);
  };
  EXPECT_THAT(with({"tau", "N", "", "1"}), HasSubstr("option 'tau' is taken: expected another name"));
  EXPECT_THAT(with({"own option", "N", "", "1"}), HasSubstr("option 'own option': expected a name"));
  EXPECT_THAT(with({"own-count", "N", "", "none", AlgorithmOption::Kind::count}),
              HasSubstr("own-count none: expected a whole number"));
  static constexpr AlgorithmOption kTwice[] = {{"own-a", "N", "", "1"}, {"own-a", "N", "", "1"}};
  wrong = own("own-wrong");
  wrong.own_options = kTwice;
  EXPECT_THAT(refusal(wrong), HasSubstr("option 'own-a' is taken"));
  EXPECT_EQ(refusal(own("own-wrong")), "") << "the name is free still";
}

}  // namespace
}  // namespace stretto
