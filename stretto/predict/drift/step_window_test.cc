#include "stretto/predict/drift/step_window.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

std::vector<float> all(const StepTimes& times) {
  std::vector<float> out;
  for (std::size_t i = 0; i < times.steps(); ++i) out.insert(out.end(), times.step(i).begin(), times.step(i).end());
  return out;
}

StepWindow window_of(const std::vector<std::vector<StepCost>>& ranks) {
  StepWindow window(static_cast<int>(ranks.size()));
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) window.add(static_cast<int>(rank), ranks[rank]);
  return window;
}

// Rank 1 is last in step 0, rank 0 in step 1: what the last one spends outside of computing is the round's.
TEST(StepWindow, TheShortestWaitOfAStepIsWhatItsRoundCosts) {
  const StepWindow window = window_of({{{1, 5}, {4, 2}}, {{5, 1}, {2, 4}}});
  EXPECT_EQ(window.total(), 4u);
  const RunInputs inputs = window.inputs(10);
  EXPECT_EQ(all(inputs.computed), (std::vector<float>{1, 5, 4, 2}));
  EXPECT_EQ(inputs.round_cost, 1.5);
  EXPECT_EQ(all(inputs.occupied()), (std::vector<float>{2.5, 6.5, 5.5, 3.5}));
}

TEST(StepWindow, ARankWithFewerStepsMakesThemAgain) {
  const StepWindow window = window_of({{{1, 1}, {2, 1}, {3, 1}}, {{9, 0}, {8, 0}}});
  EXPECT_EQ(window.total(), 5u);
  EXPECT_EQ(window.fewest(), 2u);
  EXPECT_EQ(all(window.inputs(10).computed), (std::vector<float>{1, 9, 2, 8, 3, 9}));
  EXPECT_EQ(all(window.inputs(2).computed), (std::vector<float>{1, 9, 2, 8}));
}

TEST(StepWindow, GoesOnWhereItWasAndBeginsAgain) {
  StepWindow window = window_of({{{1, 0}}});
  window.add(0, std::vector<StepCost>{{2, 0}});
  EXPECT_EQ(all(window.inputs(10).computed), (std::vector<float>{1, 2}));
  window.clear();
  EXPECT_EQ(window.fewest(), 0u);
}

}  // namespace
}  // namespace stretto
