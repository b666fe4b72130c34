#include "stretto/papers/ordering/cycle_fixes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/base/error.h"
#include "stretto/ordering/options/ordering_options.h"
#include "stretto/ordering/testing/members.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using Kind = OrdererAction::Kind;

TEST(NonblockingCycles, NeverWait) {
  OrderingMembers members(2, CoordinatorOptions(), [](const CoordinatorOptions& options) -> std::unique_ptr<Orderer> {
    return std::make_unique<NonblockingCycles>(options);
  });
  members.frozen = true;
  ASSERT_TRUE(members.submit(0, "a"));
  members.run(100ms);
  EXPECT_EQ(members.begun[Kind::sync], 1) << "one is in flight";
  EXPECT_GE(members.sleeps.size(), 19u) << "and each cycle looks";
  members.frozen = false;
  ASSERT_TRUE(members.submit(1, "a"));
  members.run(60ms);
  EXPECT_THAT(members.reduced, ElementsAre("a: 1 1"));
}

TEST(SleepTogether, SleepsTheMinimumOfAll) {
  SleepTogether one({.ranks = {0}}, 1);
  OrdererAction sync = one.next({});
  ASSERT_EQ(sync.kind, Kind::sync);
  one.control({.control = 0, .words = sync.words});
  const OrdererAction minimum = one.next({Duration(2ms)});
  ASSERT_EQ(minimum.kind, Kind::minimum);
  EXPECT_EQ(minimum.control, 1u);
  EXPECT_EQ(minimum.nap, 3ms) << "of 5 ms this cycle took 2";
  const OrdererAction meanwhile = one.next({Duration(9ms)});
  EXPECT_EQ(meanwhile.kind, Kind::wait) << "whatever time has passed: the next cycle begins after the minimum";
  EXPECT_EQ(meanwhile.until, TimePoint::never());
  one.control({.control = 1, .nap = 1ms});
  const OrdererAction sleep = one.next({Duration(9ms)});
  ASSERT_EQ(sleep.kind, Kind::sleep);
  EXPECT_EQ(sleep.until, TimePoint{Duration(10ms)});
  EXPECT_EQ(one.next({Duration(10ms)}).kind, Kind::sync);
}

TEST(SleepTogether, AgreesInEveryNthCycleAlone) {
  OrderingMembers members(2, CoordinatorOptions(), [](const CoordinatorOptions& options) -> std::unique_ptr<Orderer> {
    return std::make_unique<SleepTogether>(options, 3);
  });
  members.run(99ms);
  EXPECT_EQ(members.begun[Kind::sync], 20) << "one in 5 ms";
  EXPECT_EQ(members.begun[Kind::minimum], 6) << "in the 3rd, 6th, … 18th";
}

TEST(PaperCycleFixes, AreNamed) {
  for (const char* name : {"gs", "nbcs", "gs+scp", "nbcs+scp"}) {
    EXPECT_EQ(OrderingOptions::named(name).name(), name);
  }
  EXPECT_EQ(OrderingOptions::named("scp+nbcs").name(), "nbcs+scp");
  EXPECT_TRUE(OrderingOptions::named("gs+scp").own_cores);
  for (const char* name : {"gs+topo", "gs+nbcs", "none+gs", "gs+gs", "gs+", "gs+scp+nbcs", "coordinator+gs"}) {
    EXPECT_THROW(OrderingOptions::named(name), UsageError) << name;
  }
  try {
    OrderingOptions::named("horovod");
    ADD_FAILURE() << "not refused";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(),
                 "ordering \"horovod\": expected none, coordinator, gs, nbcs, scp, topo, gs+scp or nbcs+scp");
  }
}

}  // namespace
}  // namespace stretto
