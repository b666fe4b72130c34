#include "stretto/ordering/options/ordering_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "stretto/base/error.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

TEST(OrderingOptions, AreNamed) {
  for (const char* name : {"none", "coordinator", "scp", "topo"}) {
    EXPECT_EQ(OrderingOptions::named(name).name(), name);
  }
  EXPECT_TRUE(OrderingOptions::named("scp").own_cores);
  EXPECT_EQ(OrderingOptions::named("coordinator").fix, nullptr);
  for (const char* name : {"", "+", "horovod", "topo+scp", "topo+topo", "coordinator+none", "scp+scp"}) {
    EXPECT_THROW(OrderingOptions::named(name), UsageError) << name;
  }
}

TEST(OrderingOptions, SayWhatCannotBeUsed) {
  struct Case {
    std::function<void(OrderingOptions&)> change;
    const char* says;
  };
  const Case cases[] = {
      {[](auto& o) { o.cycle_time = 0ms; }, "cycle time 0 ns: expected at least 1 ns"},
      {[](auto& o) { o.fusion_bytes = 7; }, "fusion bytes 7: expected at least 8"},
      {[](auto& o) { o.gs_every = 0; }, "gs every 0: expected at least 1"},
      {[](auto& o) { o.cache_capacity = -1; }, "cache capacity -1: expected at least 0"},
      {[](auto& o) { o.in_flight = 0; }, "in flight 0: expected at least 1"},
      {[](auto& o) { o.plan_patience = 0ms; }, "plan patience 0 ns: expected at least 1 ns"},
      {[](auto& o) { o.stall_warning = 0s; }, "stall warning 0 ns: expected at least 1 ns"},
      {[](auto& o) { o.stall_abort = -1s; }, "stall abort -1000000000 ns: expected at least 0 ns"},
      {[](auto& o) {
         o.sets = {{0, 1}, {}};
       },
       "process set 2 has no members"},
      {[](auto& o) {
         o.sets = {{3, 1, 3}};
       },
       "process set 1 has rank 3 twice"},
      {[](auto& o) {
         o.sets = {{0, 4}};
       },
       "process set 1 has rank 4; expected 0 to 3"},
      {[](auto& o) {
         o.sets = {{-1, 2}};
       },
       "process set 1 has rank -1; expected 0 to 3"},
  };
  EXPECT_NO_THROW(OrderingOptions().check(4));
  for (const Case& c : cases) {
    OrderingOptions options;
    c.change(options);
    try {
      options.check(4);
      ADD_FAILURE() << "not refused: " << c.says;
    } catch (const UsageError& error) {
      EXPECT_STREQ(error.what(), c.says);
    }
  }
}

}  // namespace
}  // namespace stretto
