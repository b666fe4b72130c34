#include "stretto/membership/hosts/liveness/clock_offset.h"

#include <gtest/gtest.h>

#include <utility>

namespace stretto {
namespace {

using namespace std::chrono_literals;
using std::chrono::years;

/// A host whose clock is ahead of the true time.
struct ClockedHost {
  int number;
  Duration ahead;
  ClockOffset offset{number};
  TimePoint at(Duration time) const { return {time + ahead}; }
};

/// A beat that leaves at a true time, and is under way for so long.
void beat(ClockedHost& from, ClockedHost& to, Duration leaves, Duration way) {
  to.offset.heard(from.number, from.offset.times_for(to.number, from.at(leaves)), to.at(leaves + way));
}

TEST(ClockOffset, OfHostZeroIsNothing) {
  ClockedHost first{0, 5s};
  ASSERT_TRUE(first.offset.reading(first.at(0s)));
  EXPECT_EQ(first.offset.reading(first.at(0s))->ahead, 0s);
  EXPECT_EQ(first.offset.reading(first.at(100s))->error, 0s);
}

TEST(ClockOffset, IsExactWhereBothWaysTakeAsLong) {
  const Duration year = years(1);
  for (const Duration ahead : {year, -year, Duration(0), Duration(1)}) {
    ClockedHost first{0, 2 * year}, second{1, 2 * year + ahead};
    beat(second, first, 0s, 100us);
    EXPECT_FALSE(second.offset.reading(second.at(0s)));
    beat(first, second, 700ms, 100us);  // which it has been held for so long
    const auto found = second.offset.reading(second.at(700ms + 100us));
    ASSERT_TRUE(found);
    EXPECT_EQ(found->ahead, ahead);
    EXPECT_EQ(found->error, 100us);
  }
}

TEST(ClockOffset, ErrsByHalfOfWhatTheWaysDifferBy) {
  ClockedHost first{0, 0s}, second{1, 7s};
  beat(second, first, 0s, 300us);
  beat(first, second, 1ms, 100us);
  const auto found = second.offset.reading(second.at(1ms + 100us));
  EXPECT_EQ(found->ahead, 7s - 100us);
  EXPECT_EQ(found->error, 200us);
}

TEST(ClockOffset, TheLeastRoundTripCountsUntilClocksMayHaveDriftedFurther) {
  ClockedHost first{0, 0s}, second{1, 3s};
  const auto exchange = [&](Duration time, Duration there, Duration back) {
    beat(second, first, time, there);
    beat(first, second, time + there, back);
    return second.offset.reading(second.at(time + there + back));
  };
  EXPECT_EQ(exchange(0s, 20us, 20us)->ahead, 3s);
  EXPECT_EQ(exchange(1s, 320us, 20us)->ahead, 3s);  // its own error of 180 µs is larger than 20 + 100
  second.ahead = 3s + 200us;
  // After two seconds the first has an error of 20 + 200 µs.
  const auto found = exchange(2s, 320us, 20us);
  EXPECT_EQ(found->ahead, 3s + 200us - 150us);
  EXPECT_EQ(found->error, 170us + 0us);
}

TEST(ClockOffset, GoesOnFromHostToHostWithItsError) {
  ClockedHost first{0, 0s}, second{1, 10s}, third{3, -20s};
  beat(third, second, 0s, 50us);
  beat(second, third, 1ms, 50us);
  EXPECT_FALSE(third.offset.reading(third.at(2ms))) << "its neighbour knows nothing yet";
  beat(second, first, 2ms, 100us);
  beat(first, second, 3ms, 100us);
  beat(second, third, 3ms + 100us, 50us);
  const auto found = third.offset.reading(third.at(3ms + 150us));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->ahead, -20s);
  EXPECT_GE(found->error, 150us);
  EXPECT_LT(found->error, 151us);
}

TEST(ClockOffset, AReadingRoundACircleNeverCounts) {
  ClockedHost first{0, 0s}, second{1, 10s}, third{3, -20s};
  beat(second, first, 0s, 100us);
  beat(first, second, 100us, 100us);
  for (Duration time = 1s; time < 100s; time += 1s) {  // host 0 is heard no more
    beat(second, third, time, 1us);
    beat(third, second, time + 1us, 40us);  // lopsided, so that each circle would move it
  }
  EXPECT_EQ(second.offset.reading(second.at(100s))->ahead, 10s);
}

TEST(ClockOffset, WantsFourRoundTripsAtOnce) {
  ClockedHost first{0, 0s}, second{1, 1s};
  ClockedHost *from = &first, *to = &second;
  int beats = 0;
  do {
    beat(*from, *to, beats * 2us, 1us);
    ++beats;
    std::swap(from, to);
  } while (from->offset.wants_beat(to->number));
  EXPECT_EQ(beats, 8);
  EXPECT_EQ(from, &first) << "the first to have made four";
  EXPECT_TRUE(first.offset.wants_beat(2)) << "of which it has heard nothing";
}

}  // namespace
}  // namespace stretto
