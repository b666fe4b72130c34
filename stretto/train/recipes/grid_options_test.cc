#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/base/error.h"
#include "stretto/train/recipes/grid.h"

namespace stretto {
namespace {

using testing::AllOf;
using testing::HasSubstr;

RecipeOptions with(const AlgorithmOptions& algorithm) {
  RecipeOptions options;
  options.local_steps = kMeetsAtTheEnd;
  options.algorithm = algorithm;
  return options;
}

TEST(GridOptions, ThatHaveNoEffectAreSaid) {
  EXPECT_EQ(grid_warning(with({}), 16), "");
  EXPECT_EQ(grid_warning(with({{"reduce-share", "0.5"}}), 16), "") << "two of four";
  EXPECT_EQ(grid_warning(with({{"reduce-share", "0.5"}}), 4),
            "reduce-share 0.5 of a line of 2 is one rank: it waits for none of the others");
  EXPECT_EQ(grid_warning(with({{"advance-share", "0.9"}}), 16),
            "advance-share 0.9 has no effect: of each line it is all");
  EXPECT_EQ(grid_warning(with({{"advance-share", "0.9"}, {"dimensions", "1"}}), 16), "") << "15 of 16";
  EXPECT_THAT(grid_warning(with({{"alpha", "0.6"}, {"complete-share", "0.8"}}), 16),
              AllOf(HasSubstr("complete-share 0.8 has no effect"), HasSubstr("; alpha 0.6 in 2 dimensions")));
  EXPECT_EQ(grid_warning(with({{"alpha", "0.6"}, {"dimensions", "1"}}), 16), "");
  EXPECT_EQ(grid_warning(with({{"reduce-share", "0.5"}}), 1), "");
  AlgorithmOptions flight{{"rounds-in-flight", "2"}, {"elastic-rule", "paper"}};
  EXPECT_EQ(
      grid_warning(with(flight), 16),
      "rounds-in-flight 2 has no effect with advance-share 1: a round starts when all have applied the one before");
  flight.set("advance-share", "0.5");
  EXPECT_EQ(grid_warning(with(flight), 16), "");
}

TEST(GridOptions, ThatDoNotFitAFewWaitForMoreWhereMembersChange) {
  for (const auto& [name, value] : {std::pair("grid-rows", "3"), std::pair("dimensions", "3")}) {
    RecipeOptions options = with({{name, value}});
    EXPECT_THROW(check_grid(options, 2), UsageError) << name;
    options.members_change = true;
    EXPECT_NO_THROW(check_grid(options, 2)) << name;
    EXPECT_EQ(grid_warning(options, 2), "") << name;
  }
}

TEST(GridOptions, ThatGoWithThePaperAloneAreRefusedWithCarry) {
  for (const auto& [name, value] : {std::pair("missing", "previous"), std::pair("rounds-in-flight", "2")}) {
    EXPECT_THROW(check_grid(with({{name, value}}), 4), UsageError);
    EXPECT_NO_THROW(check_grid(with({{name, value}, {"elastic-rule", "paper"}}), 4));
    EXPECT_THROW(AlgorithmOptions({{name, "0"}}), UsageError);
  }
  EXPECT_THROW(check_grid(with({{"reduce-share", "0"}}), 4), UsageError);
  const AlgorithmOptions previous{{"missing", "previous"}, {"elastic-rule", "paper"}};
  for (const auto& [compression, fits] :
       {std::pair("none", true), std::pair("zeros", true), std::pair("int8", false)}) {
    EXPECT_NO_THROW(check_grid(with({{"compression", compression}}), 4));
    AlgorithmOptions both = previous;
    both.set("compression", compression);
    const auto check = [&] { check_grid(with(both), 4); };
    if (fits) {
      EXPECT_NO_THROW(check());
    } else {
      EXPECT_THROW(check(), UsageError);
    }
  }
  EXPECT_THROW(AlgorithmOptions({{"compression", "int4"}}), UsageError);
  EXPECT_NO_THROW(check_grid(with({{"momentum-exchange", "yes"}}), 4));
  EXPECT_THROW(check_grid(with({{"momentum-exchange", "yes"}, {"elastic-rule", "paper"}}), 4), UsageError);
  EXPECT_THROW(check_grid(with({{"momentum-exchange", "yes"}, {"average-momentum", "yes"}}), 4), UsageError);
}

}  // namespace
}  // namespace stretto
