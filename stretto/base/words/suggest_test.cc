#include "stretto/base/words/suggest.h"

#include <gtest/gtest.h>

#include <vector>

namespace stretto {
namespace {

const std::vector<std::string> kAlgorithms = {"sync", "eager-solo", "eager-majority", "eager-quorum", "local"};

TEST(EditDistance, CountsInsertedRemovedReplacedAndSwappedLetters) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("sync", "sync"), 0);
  EXPECT_EQ(edit_distance("snyc", "sync"), 1);
  EXPECT_EQ(edit_distance("syn", "sync"), 1);
  EXPECT_EQ(edit_distance("ssync", "sync"), 1);
  EXPECT_EQ(edit_distance("sonc", "sync"), 1);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("", "abc"), 3);
}

TEST(Nearest, FindsAMisspeltWord) {
  EXPECT_EQ(nearest("snyc", kAlgorithms), "sync");
  EXPECT_EQ(nearest("eager-qorum", kAlgorithms), "eager-quorum");
  EXPECT_EQ(nearest("eager_solo", kAlgorithms), "eager-solo");
  EXPECT_EQ(nearest("loc", kAlgorithms), "local");
}

TEST(Nearest, FindsNothingWhereNothingIsNear) {
  EXPECT_EQ(nearest("allreduce", kAlgorithms), "");
  EXPECT_EQ(nearest("", kAlgorithms), "");
  EXPECT_EQ(nearest("fish", std::vector<std::string>{"bash", "zsh"}), "") << "half of its letters are others";
}

TEST(Suggestion, NamesTheNearestAndAllKnown) {
  EXPECT_EQ(suggestion("snyc", kAlgorithms),
            "did you mean sync? Known: sync, eager-solo, eager-majority, eager-quorum, local");
  EXPECT_EQ(suggestion("zzz", kAlgorithms), "Known: sync, eager-solo, eager-majority, eager-quorum, local");
}

}  // namespace
}  // namespace stretto
