#include "stretto/train/ordering/ready_order.h"

#include <gmock/gmock.h>

#include <numeric>
#include <set>

#include "stretto/base/error.h"

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAreArray;

std::vector<int> first(int count) {
  std::vector<int> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

// What a rank hands over in each of some steps of so many gradients.
std::vector<std::vector<int>> handed_over(const ReadyOrderOptions& options, int rank, int gradients, int steps) {
  std::vector<std::vector<int>> all;
  Mutex mutex;
  ReadyOrder order(options, rank, [&](int parameter) {
    const MutexLock lock(mutex);
    all.back().push_back(parameter);
  });
  for (int step = 0; step < steps; ++step) {
    {
      const MutexLock lock(mutex);
      all.emplace_back();
    }
    for (const int parameter : first(gradients)) order.ready(parameter);
    order.flush();
  }
  return all;
}

TEST(ReadyOrder, ByDefaultHandsEachGradientOverAtOnceInTheThreadThatHasIt) {
  std::vector<int> seen;
  const std::thread::id here = std::this_thread::get_id();
  ReadyOrder order({}, 3, [&](int parameter) {
    EXPECT_EQ(std::this_thread::get_id(), here);
    seen.push_back(parameter);
  });
  order.ready(4);
  order.ready(2);
  EXPECT_THAT(seen, ElementsAre(4, 2));
  order.flush();
  EXPECT_THAT(seen, ElementsAre(4, 2));
}

TEST(ReadyOrder, ShufflesByItsSeedInAnotherWayOnEachRankAndInEachStep) {
  const ReadyOrderOptions options{.shuffle = 7};
  std::set<std::vector<int>> orders;
  for (int rank = 0; rank < 4; ++rank) {
    const auto steps = handed_over(options, rank, 33, 5);
    EXPECT_EQ(steps, handed_over(options, rank, 33, 5));
    for (const std::vector<int>& order : steps) {
      EXPECT_THAT(order, UnorderedElementsAreArray(first(33)));
      EXPECT_TRUE(orders.insert(order).second);
    }
  }
  EXPECT_NE(handed_over({.shuffle = 8}, 0, 33, 1), handed_over(options, 0, 33, 1));
}

TEST(ReadyOrder, NothingGoesBeyondAFlush) {
  for (const int threads : {0, 1, 4}) {
    for (const auto& step : handed_over({.shuffle = 1, .threads = threads}, 0, 5, 20)) {
      EXPECT_THAT(step, UnorderedElementsAreArray(first(5))) << threads;
    }
  }
}

TEST(ReadyOrder, HandsOverFromOtherThreads) {
  for (const int threads : {1, 2, 7}) {
    std::set<std::thread::id> seen;
    Mutex mutex;
    CondVar changed;
    int together = 0;
    ReadyOrder order({.threads = threads}, 0, [&](int) {
      const MutexLock lock(mutex);
      seen.insert(std::this_thread::get_id());
      ++together;
      changed.notify_all();
      // Until each of the threads has one.
      while (together < threads) changed.wait_for(mutex, std::chrono::seconds(1));
    });
    for (int parameter = 0; parameter < threads; ++parameter) order.ready(parameter);
    order.flush();
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(threads));
    EXPECT_FALSE(seen.contains(std::this_thread::get_id()));
  }
}

TEST(ReadyOrder, FlushThrowsWhatThreadsHaveThrown) {
  ReadyOrder order({.threads = 2}, 0, [](int parameter) {
    if (parameter == 3) throw UsageError("the third");
  });
  for (const int parameter : first(6)) order.ready(parameter);
  EXPECT_THROW(order.flush(), UsageError);
  order.ready(1);
  order.flush();
}

TEST(ReadyOrder, RefusesANumberOfThreadsThatThereCannotBe) {
  EXPECT_THROW(ReadyOrder({.threads = -1}, 0, [](int) {}), UsageError);
  EXPECT_THROW(ReadyOrder({.threads = 65}, 0, [](int) {}), UsageError);
}

}  // namespace
}  // namespace stretto
