#include "stretto/check/partial/search.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

void expect_clean(const SearchOptions& options) {
  const SearchResult result = search(options);
  EXPECT_FALSE(result.violation) << *result.violation << "\n" << result.scenario;
  EXPECT_GE(result.coverage.rounds, options.rounds);
}

TEST(Search, FindsNothingInWhatIsRight) {
  expect_clean({.first_seed = 1, .rounds = 5000});
}

TEST(Search, FindsNothingUnderAnyOnePolicy) {
  for (Policy::Kind kind :
       {Policy::Kind::full, Policy::Kind::solo, Policy::Kind::majority, Policy::Kind::quorum, Policy::Kind::deadline}) {
    expect_clean({.first_seed = 77, .rounds = 500, .limits = {.policy = kind}});
  }
}

TEST(Search, FindsNothingForAnyNumberOfRanks) {
  for (int ranks : {1, 2, 3, 4, 5, 7, 8, 16, 33}) {
    expect_clean({.first_seed = 1000, .rounds = 200, .limits = {.ranks = ranks}});
  }
}

TEST(Search, FindsNothingWhateverTheRoundsRunOver) {
  for (const Over over : {Over::messages, Over::board, Over::boards}) {
    expect_clean({.first_seed = 2000, .rounds = 2000, .limits = {.over = over}});
  }
}

TEST(Search, FindsNothingOnSeveralBoardsUnderAnyOnePolicy) {
  for (Policy::Kind kind :
       {Policy::Kind::full, Policy::Kind::solo, Policy::Kind::majority, Policy::Kind::quorum, Policy::Kind::deadline}) {
    expect_clean({.first_seed = 3000, .rounds = 500, .limits = {.policy = kind, .over = Over::boards}});
  }
}

TEST(Search, IsAFunctionOfTheSeed) {
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    const Finding a = run_scenario(draw_scenario(seed, {}));
    const Finding b = run_scenario(draw_scenario(seed, {}));
    EXPECT_EQ(a.messages, b.messages);
    EXPECT_EQ(a.coverage.rounds, b.coverage.rounds);
    EXPECT_EQ(a.coverage.pipelined, b.coverage.pipelined);
  }
}

TEST(Search, SaysWhatItHasReached) {
  const SearchResult result = search({.first_seed = 1, .rounds = 12000});
  EXPECT_EQ(result.shortfall, "");
  EXPECT_GT(result.coverage.crashes, 0u);
  EXPECT_GT(result.coverage.empty, 0u);
  EXPECT_GT(result.coverage.passes, 0u);
}

}  // namespace
}  // namespace stretto
