#include "stretto/train/recipes/options/core_sets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/base/error.h"

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string refusal(const std::string& written, std::vector<int> allowed) {
  try {
    parse_core_sets(written, allowed, 1, 2);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(CoreSets, CutsTheCoresByTheNumberOfThreads) {
  const std::vector<int> allowed = {2, 3, 5, 7, 8, 9, 11};
  const CoreSets sets = parse_core_sets("", allowed, 1, 2);
  EXPECT_THAT(sets.application, ElementsAre(2, 3));
  EXPECT_THAT(sets.input, ElementsAre(5, 7, 8, 9));
  EXPECT_THAT(sets.background, ElementsAre(11));
  EXPECT_FALSE(sets.overlap);
}

TEST(CoreSets, GivesEachKindACoreHoweverManyThreadsTheOtherHas) {
  const std::vector<int> allowed = {0, 1, 2, 3};
  EXPECT_THAT(parse_core_sets("", allowed, 1, 100).application, ElementsAre(0));
  EXPECT_THAT(parse_core_sets("", allowed, 100, 1).input, ElementsAre(2));
  EXPECT_THAT(parse_core_sets("", allowed, 1, 0).application, ElementsAre(0, 1, 2));
  EXPECT_THAT(parse_core_sets("", allowed, 1, 0).input, IsEmpty());
}

TEST(CoreSets, NeedsThreeCoresUnlessTheyMayBeShared) {
  EXPECT_THAT(refusal("", {0, 1}), HasSubstr("three are needed"));
  EXPECT_THAT(refusal("", {4}), HasSubstr("there is 1"));
  const std::vector<int> allowed = {0, 1};
  const CoreSets sets = parse_core_sets("shared", allowed, 1, 1);
  EXPECT_TRUE(sets.overlap);
  EXPECT_THAT(sets.application, ElementsAre(0));
  EXPECT_THAT(sets.input, ElementsAre(1));
  EXPECT_THAT(sets.background, ElementsAre(1));
  EXPECT_EQ(to_text(sets), "app 0, input 1, background 1 (shared: fewer cores than the three needed)");
}

TEST(CoreSets, TakesTheSetsThatAreGiven) {
  const std::vector<int> allowed = {0, 1, 2, 3, 4, 5};
  const CoreSets sets = parse_core_sets("app=0-2,input=3+4,bg=5", allowed, 1, 1);
  EXPECT_THAT(sets.application, ElementsAre(0, 1, 2));
  EXPECT_THAT(sets.input, ElementsAre(3, 4));
  EXPECT_THAT(sets.background, ElementsAre(5));
  EXPECT_EQ(to_text(sets), "app 0+1+2, input 3+4, background 5");
}

TEST(CoreSets, LendsTheBackgroundCore) {
  const std::vector<int> allowed = {0, 1};
  const CoreSets sets = parse_core_sets("dynamic", allowed, 1, 1);
  EXPECT_TRUE(sets.lends);
  EXPECT_EQ(to_text(sets), "app any, input any, background before the others");
}

TEST(CoreSets, RefusesEverythingElse) {
  const std::vector<int> allowed = {0, 1, 2};
  EXPECT_THAT(refusal("app=0,input=1,bg=3", allowed), HasSubstr("3 is none of them"));
  EXPECT_THAT(refusal("app=0-1,input=1,bg=2", allowed), HasSubstr("1 is in two of them"));
  EXPECT_THAT(refusal("app=0+0,bg=2", allowed), HasSubstr("0 is in two of them"));
  EXPECT_THAT(refusal("app=0,app=1,bg=2", allowed), HasSubstr("a set for each of app, input and bg"));
  EXPECT_THAT(refusal("app=0,input=1", allowed), HasSubstr("one for bg at least"));
  EXPECT_THAT(refusal("app=,bg=2", allowed), HasSubstr("numbers of cores"));
  EXPECT_THAT(refusal("app=2-1,bg=2", allowed), HasSubstr("numbers of cores"));
  EXPECT_THAT(refusal("shard", allowed), HasSubstr("shared, dynamic"));
  EXPECT_THAT(refusal("app=0,bg=2", allowed), HasSubstr("a set for input, whose threads (2)"));
  EXPECT_THAT(parse_core_sets("app=0,bg=2", allowed, 1, 0).background, ElementsAre(2)) << "there are no such threads";
}

}  // namespace
}  // namespace stretto
