#include "stretto/ordering/negotiation/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/ordering/testing/members.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using Kind = OrdererAction::Kind;

TEST(Coordinator, ReducesWhatAllHaveSubmittedWhateverTheirOrder) {
  OrderingMembers members(3);
  for (const char* name : {"a", "b"}) ASSERT_TRUE(members.submit(0, name));
  for (const char* name : {"b", "a"}) ASSERT_TRUE(members.submit(1, name));
  ASSERT_TRUE(members.submit(2, "b"));
  members.run(30ms);
  EXPECT_THAT(members.reduced, ElementsAre("b: 1 1 1"));
  ASSERT_TRUE(members.submit(2, "a"));
  members.run(30ms);
  EXPECT_THAT(members.reduced, ElementsAre("b: 1 1 1", "a: 1 1 1"));
}

TEST(Coordinator, AsksByABitForWhatIsCached) {
  OrderingMembers members(2);
  for (int step = 0; step < 5; ++step) {
    for (int m : {0, 1}) {
      ASSERT_TRUE(members.submit(m, "a"));
      members.end_step(m);
    }
    members.run(30ms);
    ASSERT_EQ(members[0].closed(), step + 1u);
  }
  EXPECT_EQ(members.reduced.size(), 5u);
  EXPECT_EQ(members.begun[Kind::gather], 1);
}

TEST(Coordinator, GathersInEachCycleWithoutACache) {
  OrderingMembers members(2, CoordinatorOptions{.cache_capacity = 0});
  for (int step = 0; step < 3; ++step) {
    for (int m : {0, 1}) {
      ASSERT_TRUE(members.submit(m, "a"));
      members.end_step(m);
    }
    members.run(30ms);
    ASSERT_EQ(members[1].closed(), step + 1u);
  }
  EXPECT_EQ(members.reduced.size(), 3u);
  EXPECT_EQ(members.begun[Kind::sync], 0);
  EXPECT_EQ(members.begun[Kind::gather], members.begun[Kind::broadcast]);
}

TEST(Coordinator, TakesATensorThatARankLeavesOutForNull) {
  OrderingMembers members(2);
  for (int step = 0; step < 2; ++step) {  // asked for, and cached
    ASSERT_TRUE(members.submit(0, "used"));
    ASSERT_TRUE(members.submit(1, "used"));
    ASSERT_TRUE(members.submit(0, "unused"));
    members.end_step(0);
    members.run(30ms);
    EXPECT_EQ(members[0].closed(), static_cast<StepNumber>(step));
    members.end_step(1);
    members.run(30ms);
    EXPECT_EQ(members[0].closed(), step + 1u);
  }
  EXPECT_THAT(members.reduced, ElementsAre("used: 1 1", "unused: 1 0", "used: 1 1", "unused: 1 0"));
}

TEST(Coordinator, AgreesAnewOnATensorWhoseShapeHasChanged) {
  OrderingMembers members(2);
  for (const std::uint64_t count : {5, 5, 7, 7}) {
    for (int m : {0, 1}) {
      ASSERT_TRUE(members.submit(m, "a", count));
      members.end_step(m);
    }
    members.run(30ms);
    for (int m : {0, 1}) {
      const auto cached = members.coordinator(m).cached();
      ASSERT_EQ(cached.size(), 1u);
      EXPECT_EQ(members[m].description(*cached[0]).count, count);
    }
  }
  EXPECT_EQ(members.reduced.size(), 4u);
  EXPECT_EQ(members.begun[Kind::gather], 2);
}

TEST(Coordinator, FailsOnAllMembersWhereDescriptionsDiffer) {
  OrderingMembers members(3);
  ASSERT_TRUE(members.submit(0, "w", 10));
  ASSERT_TRUE(members.submit(2, "w", 20));
  members.run(30ms);
  for (int m : {0, 1, 2}) {
    ASSERT_TRUE(members.failure(m)) << m;
    EXPECT_EQ(members.failure(m)->code, Errc::bad_input);
    EXPECT_EQ(members.failure(m)->message,
              "tensor w: rank 0 reduces float32, sum, 10 elements, and rank 2 reduces float32, sum, 20 elements");
  }
}

TEST(Coordinator, RefusesATensorTwiceInAStepAndAfterItsEnd) {
  OrderingMembers members(1);
  ASSERT_TRUE(members.submit(0, "a", 3));
  EXPECT_EQ(members.submit(0, "a", 3).error().message, "tensor a is submitted twice in step 0");
  EXPECT_EQ(members.submit(0, "a", 4).error().message, "tensor a is submitted twice in step 0");
  members.end_step(0);
  EXPECT_THAT(members.submit(0, "b").error().message, HasSubstr("tensor b is submitted in step 0, which has ended"));
}

TEST(Coordinator, WaitsForALateRankAndIssuesInTheCycleAfterItHasCome) {
  OrderingMembers members(2);
  members.frozen = true;
  ASSERT_TRUE(members.submit(0, "a"));
  members.run(1s);
  EXPECT_EQ(members.controls(), 1) << "it waits in the first sync";
  members.frozen = false;
  ASSERT_TRUE(members.submit(1, "a"));
  members.run(15ms);
  EXPECT_THAT(members.reduced, ElementsAre("a: 1 1"));
}

TEST(Coordinator, ClosesBuffersThatAreFull) {
  OrderingMembers members(1, CoordinatorOptions{.fusion_bytes = 40});
  for (const auto& [name, count] : {std::pair{"a", 4u}, {"b", 6u}, {"c", 1u}, {"large", 20u}, {"d", 1u}}) {
    ASSERT_TRUE(members.submit(0, name, count));
  }
  members.run(30ms);
  EXPECT_THAT(members.reduced, ElementsAre("a b: 11", "c: 1", "large: 1", "d: 1"));
}

TEST(Coordinator, EvictsAlikeWhereTheCacheIsSmall) {
  OrderingMembers members(2, CoordinatorOptions{.cache_capacity = 2});
  for (int step = 0; step < 6; ++step) {
    for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(members.submit(0, name));
    for (const char* name : {"c", "b", "a"}) ASSERT_TRUE(members.submit(1, name));
    for (int m : {0, 1}) members.end_step(m);
    members.run(60ms);
    ASSERT_EQ(members[0].closed(), step + 1u);
    for (std::size_t p = 0; p < 2; ++p) {
      const auto name = [&](int m) { return members[m].description(*members.coordinator(m).cached()[p]).name; };
      EXPECT_EQ(name(0), name(1));
    }
  }
}

TEST(Coordinator, GoesOnForRanksThatHaveMoreSteps) {
  OrderingMembers members(2);
  members[1].drained();
  for (int step = 0; step < 3; ++step) {
    ASSERT_TRUE(members.submit(0, "a"));
    members.end_step(0);
    members.run(30ms);
    ASSERT_EQ(members[0].closed(), step + 1u);
    EXPECT_FALSE(members.ended(1));
  }
  members[0].drained();
  members.run(30ms);
  EXPECT_THAT(members.reduced, ElementsAre("a: 1 0", "a: 1 0", "a: 1 0"));
  EXPECT_TRUE(members.ended(0));
  EXPECT_TRUE(members.ended(1));
}

TEST(Coordinator, FailsAtOnceWhereNoRankCanGoOn) {
  for (const std::size_t capacity : {0u, 8u}) {
    OrderingMembers members(3, CoordinatorOptions{.cache_capacity = capacity});
    for (int m : {0, 1}) {
      ASSERT_TRUE(members.submit(m, "norm.3"));
      members.wait(m, "norm.3");
    }
    ASSERT_TRUE(members.submit(2, "head"));
    members.run(30ms);
    EXPECT_FALSE(members.failure(0));
    members.wait(2, "head");
    members.run(30ms);
    for (int m : {0, 1, 2}) {
      ASSERT_TRUE(members.failure(m));
      EXPECT_EQ(members.failure(m)->message,
                "step 0: no rank can go on: norm.3: ranks 0, 1 wait, rank 2 has not; head: rank 2 waits, ranks 0, 1 "
                "have not");
    }
  }
}

TEST(Coordinator, SaysAfterAWhileWhoIsWaitedForAndFailsInTheEnd) {
  for (const bool cached : {false, true}) {
    OrderingMembers members(2);
    for (int m : {0, 1}) {
      if (cached) {
        ASSERT_TRUE(members.submit(m, "a"));
      }
      members.end_step(m);
    }
    members.run(30ms);
    ASSERT_TRUE(members.submit(1, "a"));
    members.run(9s);
    EXPECT_THAT(members.lines, IsEmpty());
    members.run(2s);
    EXPECT_THAT(members.lines, ElementsAre("step 1, after 10 s: a: rank 1 has it, rank 0 has not; rank 0 computes"));
    members.run(50s);
    ASSERT_TRUE(members.failure(0));
    EXPECT_EQ(members.failure(0)->code, Errc::timeout);
    EXPECT_EQ(members.lines.size(), 1u);
  }
}

TEST(Coordinator, TakesNoBytesForGranted) {
  Coordinator one({.ranks = {0, 1}, .member = 1});
  OrdererAction action = one.next({});
  one.control({.control = 0, .words = {1, 2}});
  action = one.next({});
  ASSERT_EQ(action.kind, Kind::fail);
  EXPECT_EQ(action.error->message, "a sync of 2 words, expected 3");

  Coordinator other({.ranks = {0, 1}, .member = 1});
  ASSERT_TRUE(other.submitted(other.tensor({.name = "a"}), 0));
  action = other.next({});
  other.control({.control = 0, .words = action.words});
  ASSERT_EQ(other.next({}).kind, Kind::gather);
  other.control({.control = 1});
  ASSERT_EQ(other.next({}).kind, Kind::broadcast);
  other.control({.control = 2, .bytes = std::vector<std::byte>(5)});
  EXPECT_EQ(other.next({}).kind, Kind::fail);
}

}  // namespace
}  // namespace stretto
