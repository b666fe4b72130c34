#include "stretto/papers/ordering/scale/core_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "stretto/base/error.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

/// Threads that do a list of operations each, and when each was over.
class Pools {
 public:
  explicit Pools(Duration slice = 10ms, CorePools::WakeUp wake_up = {}) : pools(slice, std::move(wake_up)) {}

  CorePools::Thread add(CorePools::Pool pool, std::vector<CoreOperation> operations) {
    over.emplace_back();
    const std::size_t index = over.size() - 1;
    return pools.add_thread(pool, [this, index, operations = std::move(operations), next = 0UL]() mutable {
      if (next > 0) over[index].push_back(pools.now().since_start / 1ms);
      return next < operations.size() ? operations[next++] : CoreOperation();
    });
  }
  void run() {
    pools.run([] { return false; });
  }

  CorePools pools;
  std::vector<std::vector<long>> over;  // milliseconds, by thread
};

TEST(CorePools, ThreadsWithACoreEachDoNotDisturbEachOther) {
  Pools p;
  const auto pool = p.pools.add_pool(2);
  p.add(pool, {CoreOperation::compute(25ms), CoreOperation::compute(5ms)});
  p.add(pool, {CoreOperation::compute(40ms)});
  p.run();
  EXPECT_THAT(p.over[0], ElementsAre(25, 30));
  EXPECT_THAT(p.over[1], ElementsAre(40));
}

TEST(CorePools, TakeTurnsByTheSlice) {
  // 0: 0–10, 20–25; 1: 10–20, 25–35, 35–40.
  Pools p;
  const auto pool = p.pools.add_pool(1);
  p.add(pool, {CoreOperation::compute(15ms)});
  const auto second = p.add(pool, {CoreOperation::compute(25ms)});
  p.run();
  EXPECT_THAT(p.over[0], ElementsAre(25));
  EXPECT_THAT(p.over[1], ElementsAre(40));
  EXPECT_EQ(p.pools.used(second), 25ms);
}

TEST(CorePools, TwoCoresAreSharedByThree) {
  // Each has two thirds of a core: 0: 0–10, 10–20 (no, the third waits): 0 and 1 until 10; 2 and 0 until 20; 1 and 2
  // until 30.
  Pools p;
  const auto pool = p.pools.add_pool(2);
  for (int i = 0; i < 3; ++i) p.add(pool, {CoreOperation::compute(20ms)});
  p.run();
  EXPECT_THAT(p.over[0], ElementsAre(20));
  EXPECT_THAT(p.over[1], ElementsAre(30));
  EXPECT_THAT(p.over[2], ElementsAre(30));
}

TEST(CorePools, WakesOnAFreeCoreAndPreemptsOnABusyOne) {
  Pools p;
  const auto free = p.pools.add_pool(1), busy = p.pools.add_pool(1);
  p.add(free, {CoreOperation::sleep(3ms), CoreOperation::compute(1ms)});
  p.add(busy, {CoreOperation::sleep(3ms), CoreOperation::compute(1ms)});
  p.add(busy, {CoreOperation::compute(8ms)});  // 0–3, 4–9
  p.run();
  EXPECT_THAT(p.over[0], ElementsAre(3, 4));
  EXPECT_THAT(p.over[1], ElementsAre(3, 4));
  EXPECT_THAT(p.over[2], ElementsAre(9));
}

TEST(CorePools, DelayOfWakingIsDrawnByWhetherACoreIsFree) {
  Pools p(10ms, [](CorePools::Thread, bool busy) -> Duration { return busy ? 4ms : 1ms; });
  const auto free = p.pools.add_pool(1), busy = p.pools.add_pool(1);
  p.add(free, {CoreOperation::sleep(3ms)});
  p.add(busy, {CoreOperation::sleep(3ms)});
  p.add(busy, {CoreOperation::compute(20ms)});
  p.run();
  EXPECT_THAT(p.over[0], ElementsAre(4));
  EXPECT_THAT(p.over[1], ElementsAre(7));
  EXPECT_THAT(p.over[2], ElementsAre(20));
}

TEST(CorePools, PreemptsTheThreadThatHasRunLongest) {
  Pools p;
  const auto pool = p.pools.add_pool(2);
  p.add(pool, {CoreOperation::sleep(5ms), CoreOperation::compute(2ms)});
  p.add(pool, {CoreOperation::compute(9ms)});                             // since 0: gives way from 5 to 7
  p.add(pool, {CoreOperation::sleep(1ms), CoreOperation::compute(9ms)});  // since 1
  p.run();
  EXPECT_THAT(p.over[0], ElementsAre(5, 7));
  EXPECT_THAT(p.over[1], ElementsAre(11));
  EXPECT_THAT(p.over[2], ElementsAre(1, 10));
}

TEST(CorePools, ASleepingWaitUsesNoCore) {
  Pools p;
  const auto pool = p.pools.add_pool(1);
  const PoolEvent event = p.pools.new_event();
  p.pools.signal_at(event, {12ms});
  const auto waits = p.add(pool, {CoreOperation::wait(event), CoreOperation::compute(1ms)});
  p.add(pool, {CoreOperation::compute(20ms)});
  p.run();
  EXPECT_THAT(p.over[0], ElementsAre(12, 13));
  EXPECT_THAT(p.over[1], ElementsAre(21));
  EXPECT_EQ(p.pools.used(waits), 1ms);
}

TEST(CorePools, ASpinningWaitSeesItsEventOnlyWhileItRuns) {
  // Spins 0–10 and again from 20; the event happens at 12, while the other one runs.
  Pools p;
  const auto pool = p.pools.add_pool(1);
  const PoolEvent event = p.pools.new_event();
  p.pools.signal_at(event, {12ms});
  const auto spins = p.add(pool, {CoreOperation::spin(event)});
  p.add(pool, {CoreOperation::compute(15ms)});
  p.run();
  EXPECT_THAT(p.over[0], ElementsAre(20));
  EXPECT_THAT(p.over[1], ElementsAre(25));
  EXPECT_EQ(p.pools.used(spins), 10ms);
}

TEST(CorePools, ASpinningWaitSeesItsEventAtOnceWhileItRuns) {
  Pools p;
  const auto pool = p.pools.add_pool(1);
  const PoolEvent event = p.pools.new_event(), past = p.pools.new_event();
  p.pools.signal_at(past, {0ms});
  p.pools.signal_at(event, {37ms});
  const auto spins = p.add(pool, {CoreOperation::compute(1ms), CoreOperation::spin(past), CoreOperation::spin(event)});
  p.run();
  EXPECT_THAT(p.over[0], ElementsAre(1, 1, 37));
  EXPECT_EQ(p.pools.used(spins), 37ms);
}

TEST(CorePools, AcceleratorsWorkInOrderBesideTheCores) {
  Pools p;
  const auto pool = p.pools.add_pool(1);
  const auto accelerator = p.pools.add_accelerator();
  const PoolEvent first = p.pools.new_event(), second = p.pools.new_event();
  p.pools.submit(accelerator, 8ms, first);
  p.pools.submit(accelerator, 5ms, second);
  p.add(pool, {CoreOperation::compute(2ms), CoreOperation::wait(first), CoreOperation::wait(second)});
  p.run();
  EXPECT_THAT(p.over[0], ElementsAre(2, 8, 13));
  const PoolEvent late = p.pools.new_event();
  p.pools.submit(accelerator, 1ms, late);  // it has been idle
  p.run();
  EXPECT_EQ(p.pools.now(), TimePoint{14ms});
}

TEST(CorePools, StopsWhereItIsToldTo) {
  Pools p;
  const auto pool = p.pools.add_pool(1);
  const PoolEvent never = p.pools.new_event();
  p.add(pool, {CoreOperation::spin(never)});
  p.pools.run([&] { return p.pools.now() >= TimePoint{35ms}; });
  EXPECT_EQ(p.pools.now(), TimePoint{40ms});  // the first end of a slice after that
}

TEST(CorePools, Misuse) {
  const CheckFailuresThrow guard;
  EXPECT_THROW(CorePools(0ms), CheckFailure);
  CorePools pools(1ms);
  EXPECT_THROW(pools.add_pool(0), CheckFailure);
  EXPECT_THROW(pools.add_thread(0, {}), CheckFailure);
}

}  // namespace
}  // namespace stretto
