#include "stretto/predict/drift/step_window.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

std::vector<float> all(const StepTimes& times) {
  std::vector<float> out;
  for (std::size_t i = 0; i < times.steps(); ++i) out.insert(out.end(), times.step(i).begin(), times.step(i).end());
  return out;
}

StepWindow window_of(const std::vector<std::vector<float>>& ranks) {
  StepWindow window(static_cast<int>(ranks.size()));
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) window.add(static_cast<int>(rank), ranks[rank]);
  return window;
}

TEST(StepWindow, KeepsTheStepsOfEachRankInTheirOrder) {
  StepWindow window = window_of({{1, 2}, {5, 6}});
  window.add(0, std::vector<float>{3});
  window.add(1, std::vector<float>{7});
  EXPECT_EQ(window.total(), 6u);
  EXPECT_EQ(all(window.times(10)), (std::vector<float>{1, 5, 2, 6, 3, 7}));
  EXPECT_EQ(all(window.times(2)), (std::vector<float>{1, 5, 2, 6}));
}

TEST(StepWindow, ARankWithFewerStepsMakesThemAgain) {
  const StepWindow window = window_of({{1, 2, 3}, {9, 8}});
  EXPECT_EQ(window.total(), 5u);
  EXPECT_EQ(window.fewest(), 2u);
  EXPECT_EQ(all(window.times(10)), (std::vector<float>{1, 9, 2, 8, 3, 9}));
}

TEST(StepWindow, BeginsAgain) {
  StepWindow window = window_of({{1}, {1}});
  window.clear();
  EXPECT_EQ(window.total(), 0u);
  EXPECT_EQ(window.fewest(), 0u);
}

}  // namespace
}  // namespace stretto
