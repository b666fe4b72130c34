#include "stretto/predict/vector/ready_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <functional>
#include <vector>

#include "stretto/base/random.h"

namespace stretto {
namespace {

constexpr MessageCosts kCosts{.latency = 10, .overhead = 1, .gap = 3, .byte_gap = 0.5};

/// One rank's messages in the order in which it sends and receives them: LogGP written down message by message, each
/// when it is asked for. The judge of the loops over arrays.
class OneByOne {
 public:
  OneByOne(std::vector<double> ready, const MessageCosts& costs)
      : costs_(costs), ready_(std::move(ready)), free_(ready_.size(), -1e300) {}

  /// All of a round at once: `to[r]` is whom rank r sends to, −1: nobody.
  void round(const std::vector<int>& to, double bytes) {
    std::vector<double> arrives(ready_.size(), -1e300);
    for (std::size_t rank = 0; rank < to.size(); ++rank) {
      if (to[rank] < 0) continue;
      const double begin = std::max(ready_[rank], free_[rank]);
      const double last_byte = std::max(0.0, bytes - 1) * costs_.byte_gap;
      free_[rank] = begin + std::max(costs_.gap, last_byte);
      ready_[rank] = begin + costs_.overhead;
      arrives[static_cast<std::size_t>(to[rank])] = ready_[rank] + (costs_.latency + last_byte);
    }
    for (std::size_t rank = 0; rank < to.size(); ++rank) {
      if (arrives[rank] > -1e299) ready_[rank] = std::max(ready_[rank], arrives[rank]) + costs_.overhead;
    }
  }

  const std::vector<double>& ready() const { return ready_; }

 private:
  const MessageCosts costs_;
  std::vector<double> ready_;
  std::vector<double> free_;
};

std::vector<int> receivers(std::size_t ranks, const std::function<int(int)>& receiver) {
  std::vector<int> to;
  for (std::size_t rank = 0; rank < ranks; ++rank) to.push_back(receiver(static_cast<int>(rank)));
  return to;
}

std::vector<double> drawn(std::size_t ranks, std::uint64_t seed) {
  Random random(seed);
  std::vector<double> times;
  for (std::size_t rank = 0; rank < ranks; ++rank) times.push_back(100 * random.uniform());
  return times;
}

TEST(ReadyTimes, OfAPairIsWorkedOutByHand) {
  // Rank 0 has sent at 1, which arrives at 1 + 2·0.5 + 10; rank 1 has sent at 6 and is ready one overhead later.
  ReadyTimes times({0, 5}, kCosts);
  times.swap(1, 3);
  EXPECT_EQ(times.ready()[0], 6 + 1 + 10 + 1);
  EXPECT_EQ(times.ready()[1], 1 + 1 + 10 + 1);
}

TEST(ReadyTimes, KeepTheGapBetweenMessagesOfARank) {
  ReadyTimes times({0, 0, 0}, {.latency = 0, .overhead = 0, .gap = 3, .byte_gap = 1});
  times.shift(1, 1);
  EXPECT_EQ(times.ready()[0], 0);
  times.shift(1, 11);  // may begin at 3, and has its last byte 10 later
  EXPECT_EQ(times.ready()[0], 13);
  times.shift(1, 1);  // and the card is free then
  EXPECT_EQ(times.ready()[0], 13);
}

TEST(ReadyTimes, OfARingAreThoseOfItsMessagesOneByOne) {
  for (const std::size_t ranks : {1, 2, 3, 8, 37}) {
    for (const double bytes : {1.0, 1000.0}) {
      OneByOne expected(drawn(ranks, 1), kCosts);
      const auto to = receivers(ranks, [&](int rank) { return (rank + 1) % static_cast<int>(ranks); });
      for (std::size_t round = 1; round < 2 * ranks - 1; ++round)
        expected.round(to, bytes / static_cast<double>(ranks));
      EXPECT_EQ(ring_allreduce(drawn(ranks, 1), bytes, kCosts), expected.ready()) << ranks;
    }
  }
}

TEST(ReadyTimes, OfAShiftFarAreThoseOfItsMessagesOneByOne) {
  for (const std::size_t distance : {1, 2, 5, 8}) {
    OneByOne expected(drawn(9, 2), kCosts);
    ReadyTimes times(drawn(9, 2), kCosts);
    for (int round = 0; round < 4; ++round) {
      expected.round(receivers(9, [&](int rank) { return (rank + static_cast<int>(distance)) % 9; }), 50);
      times.shift(distance, 50);
    }
    EXPECT_TRUE(std::ranges::equal(times.ready(), expected.ready())) << distance;
  }
}

TEST(ReadyTimes, OfRecursiveDoublingAreThoseOfItsMessagesOneByOne) {
  for (const std::size_t ranks : {1, 2, 3, 5, 8, 63, 64, 100, 10000, 16384}) {
    const auto power = static_cast<int>(std::bit_floor(ranks));
    OneByOne expected(drawn(ranks, 3), kCosts);
    expected.round(receivers(ranks, [&](int rank) { return rank >= power ? rank - power : -1; }), 64);
    for (int mask = 1; mask < power; mask *= 2)
      expected.round(receivers(ranks, [&](int rank) { return rank < power ? rank ^ mask : -1; }), 64);
    const auto above = static_cast<int>(ranks) - power;
    expected.round(receivers(ranks, [&](int rank) { return rank < above ? rank + power : -1; }), 64);
    EXPECT_EQ(recursive_doubling(drawn(ranks, 3), 64, kCosts), expected.ready()) << ranks;
  }
}

}  // namespace
}  // namespace stretto
