#include "stretto/train/loop/batch_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>

namespace stretto {
namespace {

using testing::ElementsAre;

TEST(BatchPool, BeginsWhereItsCounterStands) {
  std::atomic<std::uint64_t> word{1000};
  MemoryCounter counter(word);
  const PlanOptions plan{.samples = 20, .batch = 3, .ranks = 2, .epochs = 2, .seed = 5};
  BatchPool one(plan, Sharing::shared, 0, counter, 1000, DispenserPosition(2));
  BatchPool other(plan, Sharing::shared, 1, counter, 1000, DispenserPosition(2));
  std::vector<std::uint64_t> drawn;
  std::multiset<std::int64_t> samples;
  for (bool first = true;; first = !first) {
    const auto batch = (first ? one : other).next();
    if (!batch) break;
    drawn.push_back(batch->sequence);
    samples.insert(batch->samples.begin(), batch->samples.end());
  }
  EXPECT_THAT(drawn, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13));
  for (std::int64_t sample = 0; sample < 20; ++sample) EXPECT_EQ(samples.count(sample), 2u) << sample;
}

TEST(BatchPool, CountsAsDepositedWhatWasDrawn) {
  std::atomic<std::uint64_t> word{0};
  MemoryCounter counter(word);
  BatchPool pool({.samples = 10, .batch = 2, .ranks = 1, .epochs = 1}, Sharing::shared, 0, counter, 0,
                 DispenserPosition(1));
  pool.next();
  pool.next();
  EXPECT_EQ(pool.log().deposited, 0u);
  pool.deposited();
  EXPECT_EQ(pool.log().deposited, 2u);
  EXPECT_THAT(pool.log().handed_out, ElementsAre(0, 1));
}

}  // namespace
}  // namespace stretto
