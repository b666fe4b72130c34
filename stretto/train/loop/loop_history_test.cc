#include "stretto/train/loop/loop_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace stretto {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

struct Part {
  int rank;
  std::uint64_t base;
  float computed = 0, waited = 0;
};

/// The header of `round`, with so many batches from each of `parts`.
RoundHeader header_of(int ranks, std::uint64_t round, const std::vector<Part>& parts, std::uint64_t batches_each = 1) {
  RoundHeader header(ranks);
  for (const Part& part : parts) {
    RoundHeader one(ranks);
    (part.base == round ? one.fresh : one.stale).insert(part.rank);
    one.batches = batches_each;
    one.oldest_base = part.base;
    one.sum_of_bases = batches_each * part.base;
    one.times = {{static_cast<std::uint16_t>(part.rank), 0, part.computed, part.waited, 0}};
    header.merge(one);
  }
  return header;
}

std::vector<std::vector<double>> numbers(const LoopHistory& history, int rank) {
  std::vector<std::vector<double>> out;
  for (const LoopHistory::Step& step : history.last_steps(rank)) {
    out.push_back({step.begin, step.computed, step.waited});
  }
  return out;
}

TEST(LoopHistory, PutsTheStepsOfARankOneBehindTheOther) {
  LoopHistory history(0, 2, 4);
  history.add(0, header_of(2, 0, {{0, 0, 1, 0}, {1, 0, 2, 0}}));
  history.add(1, header_of(2, 1, {{0, 1, 1, 0.5}}));
  history.add(2, header_of(2, 2, {{0, 2, 1, 0.25}, {1, 1, 4, 1}}));
  EXPECT_THAT(numbers(history, 0),
              ElementsAre(ElementsAre(0, 1, 0), ElementsAre(1.5, 1, 0.5), ElementsAre(2.75, 1, 0.25)));
  EXPECT_THAT(numbers(history, 1), ElementsAre(ElementsAre(0, 2, 0), ElementsAre(3, 4, 1)));
}

TEST(LoopHistory, KeepsTheLastSteps) {
  LoopHistory history(0, 1, 4);
  for (std::uint64_t round = 0; round < 1000; ++round) history.add(round, header_of(1, round, {{0, round, 0.5, 0}}));
  ASSERT_EQ(history.last_steps(0).size(), LoopHistory::kLastSteps);
  EXPECT_EQ(history.last_steps(0).front().begin, 0.5 * (1000 - LoopHistory::kLastSteps));
  EXPECT_EQ(history.last_steps(0).back().begin, 0.5 * 999);
}

TEST(LoopHistory, EstimatesWhatWaitingForTheSlowestWouldHaveTaken) {
  LoopHistory history(0, 2, 4);
  EXPECT_EQ(history.estimate(10).steps, 0u);
  for (std::uint64_t round = 0; round < 4; ++round) {  // the ranks are slow by turns
    const float slow = 3, fast = 1;
    history.add(round, header_of(2, round,
                                 {{0, round, round % 2 == 0 ? slow : fast}, {1, round, round % 2 == 0 ? fast : slow}}));
  }
  const auto estimate = history.estimate(8);
  EXPECT_EQ(estimate.steps, 8u);
  EXPECT_EQ(estimate.sync, 12);
  EXPECT_EQ(estimate.ideal, 8);
  EXPECT_EQ(history.estimate(16).sync, 24) << "as many again, with the same step times";
}

TEST(LoopHistory, RanksWithoutBatchesAreNotWaitedForInAnEstimate) {
  LoopHistory history(0, 3, 4);
  history.add(0, header_of(3, 0, {{0, 0, 2}, {2, 0, 1}}));
  EXPECT_EQ(history.estimate(2).sync, 2);
}

TEST(LoopHistory, AStepTimeIsThatOfABatch) {
  LoopHistory history(0, 2, 4);
  history.add(0, header_of(2, 0, {{0, 0, 4}, {1, 0, 8}}, 4));
  EXPECT_EQ(history.estimate(2).sync, 2);
  RoundHeader three = header_of(2, 1, {{0, 1, 4}, {1, 1, 8}});
  ++three.batches;  // one of the two brought a second one
  history.add(1, three);
  EXPECT_EQ(history.estimate(2).steps, 2u);
}

// The same steps of both ranks are slow, so waiting costs nothing, unless times of different steps are compared.
TEST(LoopHistory, ForgetsTheTimesOfAllRanksAlike) {
  LoopHistory both(0, 2, 4), alone(0, 1, 4);
  constexpr std::uint64_t kRounds = 6 * LoopHistory::kMostTimes + 5;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const float time = round % 5 == 0 ? 2 : 1;
    both.add(round, header_of(2, round, {{0, round, time}, {1, round, time}}));
    alone.add(round, header_of(1, round, {{0, round, time}}));
  }
  const auto estimate = both.estimate(2 * kRounds);
  EXPECT_GT(estimate.steps, LoopHistory::kMostTimes / 2);
  EXPECT_LE(estimate.steps, 2 * LoopHistory::kMostTimes);
  EXPECT_EQ(estimate.steps, 2 * alone.estimate(kRounds).steps);
  EXPECT_EQ(estimate.sync, alone.estimate(kRounds).sync);
  EXPECT_NEAR(estimate.sync, 1.2 * kRounds, 0.05 * kRounds) << "a step in five is slow, also of those that are kept";
}

TEST(LoopHistory, NoticesWhoHoldsTheOthers) {
  LoopHistory history(0, 3, 2);
  history.add(0, header_of(3, 0, {{0, 0, 1}, {1, 0, 1}}));
  history.step(1ms);
  EXPECT_EQ(history.holds().rank, -1);
  history.add(1, header_of(3, 1, {{0, 1, 1}, {1, 1, 1}}));
  history.step(2ms);
  history.add(2, header_of(3, 2, {{0, 2, 1}, {2, 0, 7}}));  // as old as a contribution may be
  history.step(500ms);
  history.add(3, header_of(3, 3, {{0, 3, 1}}));
  history.step(900ms);
  history.add(4, header_of(3, 4, {{1, 2, 1}}));
  history.step(250ms);
  EXPECT_EQ(history.holds().rank, 2);
  EXPECT_EQ(history.holds().rounds, 2u);
  EXPECT_EQ(history.holds().longest, 0.5);
  EXPECT_EQ(history.holds().seconds, 0.75);
}

TEST(LoopHistory, ARankDoesNotHoldItself) {
  LoopHistory history(2, 3, 2);
  history.add(2, header_of(3, 2, {{0, 2, 1}, {2, 0, 7}}));
  history.step(500ms);
  EXPECT_EQ(history.holds().rank, -1);
}

TEST(LoopHistory, HeadersThatNameNoRankSayNothing) {
  LoopHistory history(0, 2, 4);
  RoundHeader header = header_of(2, 0, {{0, 0, 1}, {1, 0, 1}});
  header.forget_names();
  history.add(0, header);
  EXPECT_EQ(history.estimate(2).steps, 0u);
  EXPECT_TRUE(history.last_steps(0).empty());
}

}  // namespace
}  // namespace stretto
