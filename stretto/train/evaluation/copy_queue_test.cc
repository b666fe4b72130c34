#include "stretto/train/evaluation/copy_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "stretto/base/random.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

ModelCopy numbered(std::uint64_t number) {
  ModelCopy copy{.batches = number, .weights = {std::vector<std::byte>(sizeof(number))}};
  std::memcpy(copy.weights[0].data(), &number, sizeof(number));
  return copy;
}

std::uint64_t number_in(const ModelCopy& copy) {
  std::uint64_t number = 0;
  std::memcpy(&number, copy.weights[0].data(), sizeof(number));
  return number;
}

void pause(Random& random) {
  for (std::uint64_t i = random.below(4); i > 0; --i) std::this_thread::yield();
}

TEST(CopyQueue, KeepsTheOrderAndLeavesNothingOut) {
  constexpr std::uint64_t kCopies = 20'000;
  CopyQueue queue;
  std::atomic<std::uint64_t> put{0};
  std::thread trains([&] {
    Random random(1);
    for (std::uint64_t number = 1; number <= kCopies; ++number) {
      ModelCopy copy = numbered(number);
      while (!queue.put(copy, 10s)) continue;
      put = number;
      pause(random);
    }
    queue.close();
  });
  Random random(2);
  std::uint64_t taken = 0;
  while (const auto copy = queue.take()) {
    EXPECT_EQ(copy->batches, ++taken);
    EXPECT_EQ(number_in(*copy), taken);
    EXPECT_LE(put, taken + 1) << "this one is being evaluated, and one waits";
    pause(random);
  }
  trains.join();
  EXPECT_EQ(taken, kCopies);
}

TEST(CopyQueue, LetsOneWaitAndNoMore) {
  CopyQueue queue;
  ModelCopy first = numbered(1), second = numbered(2);
  EXPECT_TRUE(queue.put(first, 0s));
  EXPECT_FALSE(queue.put(second, 1ms));
  EXPECT_EQ(number_in(second), 2u) << "it is still the caller's";
  EXPECT_EQ(queue.take()->batches, 1u);
  EXPECT_TRUE(queue.put(second, 0s));
  EXPECT_EQ(queue.take()->batches, 2u);
}

TEST(CopyQueue, ClosedItGivesWhatIsLeftAndTakesNoMore) {
  CopyQueue queue;
  ModelCopy first = numbered(1), second = numbered(2);
  EXPECT_TRUE(queue.put(first, 0s));
  queue.close();
  EXPECT_TRUE(queue.put(second, 0s));
  EXPECT_EQ(queue.take()->batches, 1u);
  EXPECT_FALSE(queue.take().has_value());
}

TEST(CopyQueue, AbandonedItWakesBothSidesAndHasNothing) {
  CopyQueue queue;
  ModelCopy first = numbered(1);
  EXPECT_TRUE(queue.put(first, 0s));
  std::thread trains([&] {
    ModelCopy second = numbered(2);
    while (!queue.put(second, 10s)) continue;
  });
  queue.abandon();
  trains.join();
  EXPECT_FALSE(queue.take().has_value());
}

TEST(CopyQueue, WakesTheThreadThatWaitsForACopyWhenItIsClosed) {
  CopyQueue queue;
  std::thread evaluates([&] { EXPECT_FALSE(queue.take().has_value()); });
  queue.close();
  evaluates.join();
}

}  // namespace
}  // namespace stretto
