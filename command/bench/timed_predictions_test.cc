#include "command/bench/timed_predictions.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace stretto::command {
namespace {

TEST(TimePredictions, MeasuresEachPartUnderANameOfItsOwn) {
  std::set<std::string> names;
  for (const PredictionSpeed& speed :
       time_predictions(1, {.events = 1000, .workers = 3, .layers = 2, .steps = 10, .ranks = 4, .replicas = 2})) {
    EXPECT_GT(speed.value, 0) << speed.name;
    EXPECT_TRUE(names.insert(speed.name).second) << speed.name;
  }
  EXPECT_TRUE(names.contains("events_16000_per_s"));
  EXPECT_TRUE(names.contains("fine_1024_s"));
  EXPECT_TRUE(names.contains("settings_64_s"));
}

}  // namespace
}  // namespace stretto::command
