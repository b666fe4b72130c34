#include "command/train/rate_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace stretto::command {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Two ranks that wait for each other in each step, as the simulation has it and as the run does.
class TwoRanks {
 public:
  static double rate(const StepTimes& occupied) {
    double time = 0;
    for (std::size_t i = 0; i < occupied.steps(); ++i) time += static_cast<double>(std::ranges::max(occupied.step(i)));
    return 2 * static_cast<double>(occupied.steps()) / time;
  }

  /// So many steps, in which the ranks compute for so long.
  void make(int steps, float rank_0, float rank_1) {
    const float slowest = std::max(rank_0, rank_1);
    for (int i = 0; i < steps; ++i) {
      recent_.add(0, rank_0);
      recent_.add(1, rank_1);
    }
    progress_.batches += static_cast<std::uint64_t>(2 * steps);
    progress_.seconds += static_cast<double>(steps) * static_cast<double>(slowest + round_);
  }
  void set_round(float seconds) { round_ = seconds; }

  std::vector<std::string> look() { return watch_.take(progress_); }
  /// Until there is something to be told: what is computed in another process takes its time.
  std::vector<std::string> wait() {
    std::vector<std::string> lines;
    while (lines.empty()) lines = look();
    return lines;
  }
  /// What is told at the end, and on the last look before: an answer that is under way comes then or there.
  std::vector<std::string> end() {
    progress_.total = progress_.batches;
    std::vector<std::string> lines = look();
    for (std::string& line : watch_.finish(progress_.seconds)) lines.push_back(std::move(line));
    return lines;
  }
  /// The first steps, at 4 batches/s.
  void begin() {
    make(1, 9, 9);  // does not count
    EXPECT_THAT(look(), IsEmpty());
    make(5, 0.25F, 0.25F);
    EXPECT_THAT(look(), IsEmpty());
    EXPECT_EQ(watch_.predicted(), 0);
    EXPECT_THAT(wait(), ElementsAre("predicted from the first 5 steps: 4.00 batches/s"));
    EXPECT_EQ(watch_.predicted(), 4);
  }

  RateWatch& watch() { return watch_; }

 private:
  RecentSteps recent_{2};
  float round_ = 0.25F;
  RateWatch watch_{2, 5, rate};
  RunProgress progress_{.total = 1000, .steps = &recent_};
};

TEST(RateWatch, SaysNothingOfARunThatGoesAsPredicted) {
  TwoRanks run;
  run.begin();
  for (int window = 0; window < 5; ++window) {
    run.make(6, 0.25F, window == 2 ? 1.0F : 0.25F);  // one odd window
    EXPECT_THAT(run.look(), IsEmpty());
  }
  EXPECT_THAT(run.end(), IsEmpty());
  const auto prediction = run.watch().prediction();
  ASSERT_TRUE(prediction.has_value());
  EXPECT_EQ(prediction->measured, 60 / (4 * 6 * 0.5 + 6 * 1.25));
  EXPECT_THAT(prediction->to_text(), ::testing::HasSubstr("never off by more than 10 % for long"));
}

TEST(RateWatch, NamesTheRankThatBecomesSlowerAndSaysWhenThatIsOver) {
  TwoRanks run;
  run.begin();
  run.make(6, 0.25F, 0.75F);
  EXPECT_THAT(run.look(), IsEmpty()) << "one window may be odd";
  run.make(6, 0.25F, 0.75F);
  EXPECT_THAT(
      run.wait(),
      ElementsAre("batch 36, 23.8 s: 2.00 batches/s, 0.500 of the 4.00 predicted: rank 1 computes 3.00 times as long"));
  run.make(6, 0.25F, 0.75F);
  EXPECT_THAT(run.look(), IsEmpty()) << "told once";
  run.make(6, 0.25F, 0.25F);
  EXPECT_THAT(run.look(), IsEmpty());
  run.make(6, 0.25F, 0.25F);
  EXPECT_THAT(run.look(), ElementsAre("batch 72, 35.8 s: as predicted again, 4.00 batches/s"));
  EXPECT_THAT(run.end(), IsEmpty());

  const nlohmann::ordered_json json = to_json(*run.watch().prediction());
  EXPECT_EQ(json["first_steps"], 5);
  EXPECT_EQ(json["predicted"], 4);
  EXPECT_EQ(json["measured"], 60 / 24.0);
  EXPECT_EQ(json["ratio"], 60 / 24.0 / 4);
  ASSERT_EQ(json["drifts"].size(), 1u);
  const auto& drift = json["drifts"][0];
  EXPECT_EQ(drift["cause"], "rank");
  EXPECT_EQ(drift["rank"], 1);
  EXPECT_EQ(drift["times"], 3);
  EXPECT_EQ(drift["second"], 23.75);
  EXPECT_EQ(drift["until"], 35.75);
  EXPECT_EQ(drift["measured"], 2);
  EXPECT_EQ(drift["ratio"], 0.5);
}

TEST(RateWatch, KnowsComputingFromRounds) {
  TwoRanks slower;
  slower.begin();
  for (int window = 0; window < 2; ++window) {
    slower.make(6, 0.75F, 0.75F);
    EXPECT_THAT(slower.look(), IsEmpty());
  }
  EXPECT_THAT(slower.wait(), ElementsAre(::testing::EndsWith("the ranks compute 3.00 times as long")));

  TwoRanks network;
  network.begin();
  network.set_round(0.75F);
  for (int window = 0; window < 2; ++window) {
    network.make(6, 0.25F, 0.25F);
    EXPECT_THAT(network.look(), IsEmpty());
  }
  // The answer comes with the end of the run, if that is first.
  EXPECT_THAT(
      network.end(),
      ElementsAre(::testing::EndsWith("ranks compute as predicted, and a round costs 750 ms in place of 250 ms")));
  const auto prediction = network.watch().prediction();
  ASSERT_TRUE(prediction.has_value());
  EXPECT_EQ(to_json(*prediction)["drifts"][0]["cause"], "rounds");
  EXPECT_EQ(to_json(*prediction)["drifts"][0]["rank"], nullptr);
  EXPECT_EQ(to_json(*prediction)["drifts"][0]["until"], nullptr);
  EXPECT_THAT(prediction->to_text(), ::testing::HasSubstr("to the end"));
}

TEST(RateWatch, SaysWhyThereIsNoPrediction) {
  const RecentSteps none(2);
  RateWatch early(2, 5, TwoRanks::rate);
  EXPECT_THAT(early.take({.batches = 3, .total = 4, .steps = &none}), IsEmpty());
  EXPECT_THAT(early.finish(1),
              ElementsAre("no prediction: the run was over before it had made 5 steps a rank in a second or more"));
  EXPECT_FALSE(early.prediction().has_value());

  RecentSteps recent(1);
  recent.add(0, 1);
  RateWatch refused(1, 5, [](const StepTimes&) -> double { throw std::runtime_error("no room"); });
  EXPECT_THAT(refused.take({.batches = 1, .total = 100, .seconds = 1, .steps = &recent}), IsEmpty());
  for (int i = 0; i < 5; ++i) recent.add(0, 1);
  EXPECT_THAT(refused.take({.batches = 6, .total = 100, .seconds = 6, .steps = &recent}), IsEmpty());
  EXPECT_THAT(refused.finish(9), ElementsAre("no prediction: no room"));
  EXPECT_FALSE(refused.prediction().has_value());
}

}  // namespace
}  // namespace stretto::command
