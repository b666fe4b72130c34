#include "stretto/ordering/runtime/set_timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/ordering/testing/planned_orderer.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

class SetByHand final : public Clock {
 public:
  TimePoint now() const override { return at; }
  TimePoint at;
};

/// Three tensors of a set, whose ids are 0, 1, 2.
class SetTimelineTest : public ::testing::Test {
 protected:
  SetTimelineTest() {
    for (const char* name : {"a", "b", "c"}) (void)orderer_.tensor({.name = name});
  }

  void at(Duration time) { clock_.at = {time}; }
  static std::vector<Duration> times_of(const TensorTimes& t) {
    std::vector<Duration> out;
    for (const TimePoint time : {t.submitted, t.taken, t.begun, t.fused, t.done}) out.push_back(time.since_start);
    return out;
  }

  SetByHand clock_;
  PlannedOrderer orderer_{PlannedOrderer::Plan{}};
  TensorTimeline all_;
  SetTimeline set_{clock_, all_, 3};
};

TEST_F(SetTimelineTest, HasTheTimesOfWhatThisRankBrings) {
  all_.keep();
  at(2ms);
  set_.taken(0, {1ms});
  at(4ms);
  set_.taken(2, {3ms});
  at(7ms);
  set_.begun({.number = 5, .step = 9, .tensors = {2, 1, 0}, .brought = {true, false, true}}, orderer_);
  at(8ms);
  set_.fused(5);
  EXPECT_TRUE(all_.take().empty()) << "nothing is done yet";
  at(11ms);
  set_.done(5, true);
  const auto times = all_.take();
  ASSERT_EQ(times.size(), 2u) << "b comes from other ranks alone";
  EXPECT_EQ(times[0].name, "c");
  EXPECT_EQ(times[1].name, "a");
  EXPECT_EQ(times_of(times[0]), (std::vector<Duration>{3ms, 4ms, 7ms, 8ms, 11ms}));
  EXPECT_EQ(times_of(times[1]), (std::vector<Duration>{1ms, 2ms, 7ms, 8ms, 11ms}));
  for (const TensorTimes& t : times) {
    EXPECT_EQ(t.set, 3);
    EXPECT_EQ(t.step, 9u);
    EXPECT_EQ(t.buffer, 5u);
    EXPECT_FALSE(t.is_void || t.comes_again);
  }
  EXPECT_TRUE(all_.take().empty()) << "they have been taken";
}

TEST_F(SetTimelineTest, WhatComesAgainGoesOnWhereItsBufferWasThrownAway) {
  all_.keep();
  at(2ms);
  set_.taken(1, {1ms});
  at(3ms);
  set_.begun({.number = 0, .step = 4, .tensors = {1}, .brought = {true}}, orderer_);
  set_.fused(0);
  at(6ms);
  set_.done(0, false);
  at(8ms);
  set_.begun({.number = 1, .step = 4, .tensors = {1}, .brought = {true}}, orderer_);
  at(9ms);
  set_.fused(1);
  at(12ms);
  set_.done(1, true);
  const auto times = all_.take();
  ASSERT_EQ(times.size(), 2u);
  EXPECT_TRUE(times[0].is_void && !times[0].comes_again);
  EXPECT_EQ(times_of(times[0]), (std::vector<Duration>{1ms, 2ms, 3ms, 3ms, 6ms}));
  EXPECT_TRUE(!times[1].is_void && times[1].comes_again);
  EXPECT_EQ(times_of(times[1]), (std::vector<Duration>{6ms, 6ms, 8ms, 9ms, 12ms}));
}

TEST_F(SetTimelineTest, ATensorThatIsHeldBackIsInTheBufferThatIsThrownAway) {
  all_.keep();
  set_.taken(0, {0ms});
  set_.begun({.number = 0, .tensors = {0, 1}, .brought = {false, false}, .changed = true}, orderer_);
  set_.fused(0);
  at(5ms);
  set_.done(0, false);
  set_.begun({.number = 1, .tensors = {0}, .brought = {true}}, orderer_);
  set_.fused(1);
  set_.done(1, true);
  const auto times = all_.take();
  ASSERT_EQ(times.size(), 2u) << "of b there is nothing that this rank has submitted";
  EXPECT_TRUE(times[0].is_void);
  EXPECT_TRUE(!times[1].is_void && times[1].comes_again);
  EXPECT_EQ(times_of(times[1]), (std::vector<Duration>{5ms, 5ms, 5ms, 5ms, 5ms}));
}

TEST_F(SetTimelineTest, KeepsNothingOfTensorsBeforeItIsAsked) {
  set_.taken(0, {1ms});
  set_.begun({.number = 0, .tensors = {0}, .brought = {true}}, orderer_);
  set_.taken(1, {1ms});
  all_.keep();
  set_.fused(0);
  set_.done(0, true);
  set_.begun({.number = 1, .tensors = {1}, .brought = {true}}, orderer_);
  set_.fused(1);
  set_.done(1, true);
  EXPECT_TRUE(all_.take().empty());
}

TEST(TensorTimeline, KeepsTheNewest) {
  TensorTimeline all;
  for (std::uint64_t step = 0; step < TensorTimeline::kKept + 2; ++step) all.add({.step = step});
  const auto times = all.take();
  ASSERT_EQ(times.size(), TensorTimeline::kKept);
  EXPECT_EQ(times.front().step, 2u);
  EXPECT_EQ(times.back().step, TensorTimeline::kKept + 1);
}

}  // namespace
}  // namespace stretto
