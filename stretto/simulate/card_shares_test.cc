#include "stretto/simulate/card_shares.h"

#include <gtest/gtest.h>

#include <map>

#include "stretto/base/random.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

TimePoint at(Duration time) {
  return TimePoint{} + time;
}

/// When each transfer is over if nothing else begins.
std::map<int, Duration> ends_of(CardShares& cards) {
  std::map<int, Duration> ends;
  while (!cards.empty()) {
    const TimePoint time = cards.earliest();
    ends[cards.first()] = time.since_start;
    cards.end(time, cards.first());
  }
  return ends;
}

TEST(CardShares, OneTransferHasTheCardsForItself) {
  CardShares cards(2);
  const int transfer = cards.begin(at(5us), 0, 1, 40us, 3);
  EXPECT_EQ(ends_of(cards), (std::map<int, Duration>{{transfer, 45us}}));
}

TEST(CardShares, TwoToOneReceiverEndTogetherAtTwiceTheTime) {
  CardShares cards(3);
  const int a = cards.begin(at(0us), 0, 2, 40us, 1);
  const int b = cards.begin(at(0us), 1, 2, 40us, 1);
  EXPECT_EQ(ends_of(cards), (std::map<int, Duration>{{a, 80us}, {b, 80us}}));
}

TEST(CardShares, TwoOfOneSenderEndTogetherAtTwiceTheTime) {
  CardShares cards(3);
  const int a = cards.begin(at(0us), 0, 1, 40us, 1);
  const int b = cards.begin(at(0us), 0, 2, 40us, 1);
  EXPECT_EQ(ends_of(cards), (std::map<int, Duration>{{a, 80us}, {b, 80us}}));
}

TEST(CardShares, ALateOneSlowsTheRestOfTheFirstAndIsLateAsMuch) {
  CardShares cards(3);
  const int a = cards.begin(at(0us), 0, 2, 40us, 1);
  const int b = cards.begin(at(10us), 1, 2, 40us, 1);
  // a has 30 us left when b comes, which take 60; then b has 10 us left.
  EXPECT_EQ(ends_of(cards), (std::map<int, Duration>{{a, 70us}, {b, 80us}}));
}

TEST(CardShares, DirectionsAreIndependent) {
  CardShares cards(2);
  const int there = cards.begin(at(0us), 0, 1, 40us, 1);
  const int back = cards.begin(at(0us), 1, 0, 30us, 1);
  EXPECT_EQ(ends_of(cards), (std::map<int, Duration>{{there, 40us}, {back, 30us}}));
}

TEST(CardShares, WhatOneMayNotUseIsGivenToOthers) {
  CardShares cards(4);
  const int a = cards.begin(at(0us), 0, 2, 30us, 1);
  const int b = cards.begin(at(0us), 0, 3, 30us, 1);
  const int c = cards.begin(at(0us), 1, 2, 30us, 1);
  const int d = cards.begin(at(0us), 3, 2, 10us, 1);
  // Card 2 gives a, c and d a third each, so that b has two thirds of card 0. d is over at 30: from then on each has a
  // half. b has 10 left then; a and c have 20.
  EXPECT_EQ(ends_of(cards), (std::map<int, Duration>{{a, 70us}, {b, 50us}, {c, 70us}, {d, 30us}}));
}

TEST(CardShares, SharesFollowTheWeights) {
  CardShares cards(3);
  const int a = cards.begin(at(0us), 0, 2, 30us, 3);
  const int b = cards.begin(at(0us), 1, 2, 30us, 1);
  // a at three quarters is over at 40; b has had 10, and the card to itself from then on.
  EXPECT_EQ(ends_of(cards), (std::map<int, Duration>{{a, 40us}, {b, 60us}}));
}

TEST(CardShares, WhatIsGivenUpLeavesItsShareToOthers) {
  CardShares cards(3);
  const int a = cards.begin(at(0us), 0, 2, 40us, 1);
  const int b = cards.begin(at(0us), 1, 2, 40us, 1);
  cards.end(at(20us), a);
  EXPECT_EQ(ends_of(cards), (std::map<int, Duration>{{b, 50us}}));
  EXPECT_EQ(cards.begin(at(50us), 0, 1, 1us, 1), b) << "numbers are used again, the last one first";
}

/// A receiver that never idles has received everything after the sum of all, however they share it and whenever they
/// come.
TEST(CardShares, NothingIsLostAtOneReceiver) {
  Random random(7);
  CardShares cards(34);
  Duration sum{0}, now{0};
  int under_way = 0;
  for (int src = 1; src < 34; ++src) {
    const Duration alone(random.between(1'000'000, 2'000'000)), next = now + Duration(random.between(0, 500'000));
    while (!cards.empty() && cards.earliest().since_start <= next) {
      now = cards.earliest().since_start;
      cards.end(at(now), cards.first());
      --under_way;
    }
    ASSERT_TRUE(src == 1 || under_way > 0) << "the receiver idles";
    now = src == 1 ? Duration(0) : next;
    cards.begin(at(now), src, 0, alone, random.log_normal(1, 0.7));
    sum += alone;
    ++under_way;
  }
  Duration last{0};
  for (const auto& [transfer, end] : ends_of(cards)) last = std::max(last, end);
  EXPECT_NEAR(static_cast<double>(last.count()), static_cast<double>(sum.count()), 40) << "a nanosecond an event";
}

}  // namespace
}  // namespace stretto
