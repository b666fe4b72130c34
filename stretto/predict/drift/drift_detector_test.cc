#include "stretto/predict/drift/drift_detector.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace stretto {
namespace {

/// A letter for each measurement: l where the rate has left its prediction, b where it is back.
std::string turns(const std::vector<double>& rates) {
  DriftDetector detector(100);
  std::string letters;
  for (const double rate : rates) letters += ".lb"[static_cast<int>(detector.take(rate))];
  return letters;
}

TEST(DriftDetector, LeavesAfterTwoMeasurementsOnTheSameSide) {
  EXPECT_EQ(turns({100, 89, 89, 89}), "..l.");
  EXPECT_EQ(turns({100, 111, 111, 111}), "..l.");
  EXPECT_EQ(turns({89, 100, 89, 100, 111}), ".....") << "none of them twice";
  EXPECT_EQ(turns({89, 111, 89, 111}), "....") << "noise, not a drift";
}

TEST(DriftDetector, TenPercentAreNoDrift) {
  EXPECT_EQ(turns({90, 90, 90, 110, 110, 110}), "......");
}

TEST(DriftDetector, IsBackAfterTwoMeasurementsNearThePrediction) {
  EXPECT_EQ(turns({60, 60, 95, 105, 100}), ".l.b.");
  EXPECT_EQ(turns({88, 88, 93, 93, 93, 93}), ".l....") << "between both limits what was said last holds";
  EXPECT_EQ(turns({88, 88, 95, 94, 95, 95}), ".l...b");
}

TEST(DriftDetector, TellsOfEachDriftOnce) {
  EXPECT_EQ(turns({60, 60, 60, 89, 60, 66, 54}), ".l.....");
  EXPECT_EQ(turns({60, 60, 100, 100, 100, 140, 140}), ".l.b..l");
}

TEST(DriftDetector, LeavesAnewWhereTheRateMovesAgain) {
  EXPECT_EQ(turns({60, 60, 30, 30, 30}), ".l.l.");
  EXPECT_EQ(turns({60, 60, 140, 140}), ".l.l") << "to the other side";
  EXPECT_EQ(turns({60, 60, 30, 60, 30, 60}), ".l....") << "none of them twice";
  EXPECT_EQ(turns({60, 60, 92, 92, 92}), ".l.b.") << "where it is, it would not have left";
  EXPECT_EQ(turns({60, 60, 89, 91, 91}), ".l.b.");
}

TEST(DriftDetector, KnowsInWhichStateItIs) {
  DriftDetector detector(100);
  detector.take(50);
  EXPECT_FALSE(detector.drifting());
  detector.take(50);
  EXPECT_TRUE(detector.drifting());
}

}  // namespace
}  // namespace stretto
