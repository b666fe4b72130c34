#include "stretto/ordering/topo/topo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/ordering/testing/members.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Each tensor a node of its own, none after another; those in `awaited` have something behind them.
ExecutedGraph graph_of(const std::vector<std::string>& names, const std::vector<std::string>& awaited = {}) {
  ExecutedGraph graph;
  for (const std::string& name : names) graph.collectives.push_back({graph.num_nodes++, {.name = name, .count = 1}});
  const ExecutedGraph::Node end = graph.num_nodes++;
  for (const auto& [node, tensor] : graph.collectives) {
    if (std::ranges::count(awaited, tensor.name) > 0) graph.edges.push_back({node, end});
  }
  return graph;
}

/// A whole step of a member.
void step(OrderingMembers& members, int member, const std::vector<std::string>& names, const ExecutedGraph& graph) {
  for (const std::string& name : names) ASSERT_TRUE(members.submit(member, name));
  members[member].executed(members[member].closed(), graph);
  members.end_step(member);
}

TEST(Topo, SendsNoControlMessageAfterTheFirstStep) {
  OrderingMembers members(3, TopoOptions{});
  const ExecutedGraph graph = graph_of({"a", "b", "c"});
  int controls = 0;
  for (int s = 0; s < 5; ++s) {
    step(members, 0, {"a", "b", "c"}, graph);
    step(members, 1, {"c", "b", "a"}, graph);
    step(members, 2, {"b", "a", "c"}, graph);
    members.run(30ms);
    ASSERT_EQ(members[2].closed(), s + 1u);
    if (s == 0) controls = members.controls();
  }
  EXPECT_EQ(members.controls(), controls);
  EXPECT_EQ(members.topo(0).gathered_plans(), 0u);
  EXPECT_THAT(std::vector(members.reduced.end() - 2, members.reduced.end()),
              ElementsAre("a b c: 111 111 111", "a b c: 111 111 111"));
  EXPECT_THAT(members.lines, IsEmpty());
}

TEST(Topo, IssuesABufferAsSoonAsItIsFullAndTheLastOneAtTheEndOfTheStep) {
  OrderingMembers members(1, TopoOptions{.coordinator = {.fusion_bytes = 4}});
  const ExecutedGraph graph = graph_of({"a", "b", "c"});
  step(members, 0, {"a", "b", "c"}, graph);
  members.run(30ms);
  ASSERT_TRUE(members.topo(0).planned());
  members.reduced.clear();
  ASSERT_TRUE(members.submit(0, "b"));
  members.run(1ms);
  EXPECT_THAT(members.reduced, IsEmpty());
  const StallAnswer lacks_a = members.topo(0).answer({.number = 7, .step = 1, .buffer = 2}, members.now);
  EXPECT_EQ(lacks_a.number, 7u);
  EXPECT_TRUE(lacks_a.holds_back);
  EXPECT_EQ(lacks_a.lacks, "a");
  EXPECT_EQ(lacks_a.place, 0u);
  ASSERT_TRUE(members.submit(0, "a"));
  members.run(1ms);
  EXPECT_THAT(members.reduced, ElementsAre("a: 1", "b: 1"));
  ASSERT_TRUE(members.submit(0, "c"));
  members.run(1ms);
  EXPECT_EQ(members.reduced.size(), 2u);
  const StallAnswer lacks_end = members.topo(0).answer({.step = 1, .buffer = 2}, members.now);
  EXPECT_TRUE(lacks_end.holds_back);
  EXPECT_EQ(lacks_end.place, StallAnswer::kEndOfStep);
  EXPECT_FALSE(members.topo(0).answer({.step = 1, .buffer = 1}, members.now).holds_back);
  members.end_step(0);
  members.run(1ms);
  EXPECT_EQ(members.reduced.size(), 3u);
  EXPECT_EQ(members[0].closed(), 2u);
}

TEST(Topo, TheLastBufferDoesNotWaitForTheEndWhereTheStepWaitsForIt) {
  OrderingMembers members(1, TopoOptions{});
  step(members, 0, {"a"}, graph_of({"a"}, {"a"}));
  members.run(30ms);
  members.reduced.clear();
  ASSERT_TRUE(members.submit(0, "a"));
  members.run(1ms);
  EXPECT_THAT(members.reduced, ElementsAre("a: 1"));
  EXPECT_EQ(members[0].closed(), 1u);
  members.end_step(0);
  members.run(1ms);
  EXPECT_EQ(members[0].closed(), 2u);
  EXPECT_THAT(members.reduced, ElementsAre("a: 1", "end"));
}

TEST(Topo, AStepWithoutTensorsIsAStep) {
  OrderingMembers members(2, TopoOptions{});
  for (int s = 0; s < 3; ++s) {
    for (int m : {0, 1}) step(members, m, {}, graph_of({}));
    members.run(30ms);
    ASSERT_EQ(members[0].closed(), s + 1u);
  }
  EXPECT_TRUE(members.topo(0).planned());
}

TEST(Topo, AnUnusedParameterIsNullAtTheEndOfTheStep) {
  OrderingMembers members(2, TopoOptions{});
  for (int s = 0; s < 3; ++s) {
    for (int m : {0, 1}) step(members, m, {"a", "b"}, graph_of({"a", "b"}));
    members.run(30ms);
  }
  members.reduced.clear();
  step(members, 0, {"a", "b"}, graph_of({"a", "b"}));
  step(members, 1, {"a"}, graph_of({"a"}));
  members.run(30ms);
  EXPECT_THAT(members.reduced, ElementsAre("a b: 11 10"));
  EXPECT_TRUE(members.topo(1).planned());
}

TEST(Topo, RanksWithOtherGraphsPlanTheirUnion) {
  OrderingMembers members(2, TopoOptions{});
  for (int s = 0; s < 3; ++s) {
    step(members, 0, {"a", "left"}, graph_of({"a", "left"}));
    step(members, 1, {"right", "a"}, graph_of({"a", "right"}));
    members.run(30ms);
    ASSERT_EQ(members[0].closed(), s + 1u);
    ASSERT_TRUE(members.topo(s % 2).planned());
  }
  EXPECT_EQ(members.topo(0).gathered_plans(), 1u);
  EXPECT_EQ(members.reduced.back(), "a left right: 110 101");
  EXPECT_THAT(members.lines,
              ElementsAre("step 0: rank 1's graph differs from rank 0's, first at tensor right (float32, "
                          "sum, 1 element), which rank 0 does not have; planned is the union of all"));
}

TEST(Topo, InAJobOfSeveralProcessSetsDifferentGraphsAreSaidOnce) {
  OrderingMembers members(2, TopoOptions{.several_sets = true});
  const auto steps = [&](int count, const std::string& of_rank_1) {
    for (int s = 0; s < count; ++s) {
      step(members, 0, {"a"}, graph_of({"a"}));
      step(members, 1, {of_rank_1}, graph_of({of_rank_1}));
      members.run(30ms);
      EXPECT_FALSE(members.topo(0).planned() && of_rank_1 != "a");
    }
  };
  steps(3, "b");
  EXPECT_THAT(members.lines,
              ElementsAre("step 0: set 0: rank 1's graph differs from rank 0's, first at tensor b (float32, sum, 1 "
                          "element), which rank 0 does not have, in a job of several process sets; coordinator until "
                          "they are equal"));
  EXPECT_EQ(members[1].closed(), 3u);
  steps(2, "a");
  EXPECT_TRUE(members.topo(0).planned());
  EXPECT_EQ(members.lines.size(), 1u);
}

TEST(Topo, RefusesGraphsThatWaitForOneAnotherInACircle) {
  OrderingMembers members(2, TopoOptions{});
  ExecutedGraph there = graph_of({"a", "b"}), back = there;
  there.edges.push_back({0, 1});
  back.edges.push_back({1, 0});
  step(members, 0, {"a", "b"}, there);
  step(members, 1, {"a", "b"}, back);
  members.run(30ms);
  for (int m : {0, 1}) {
    ASSERT_TRUE(members.failure(m));
    EXPECT_THAT(members.failure(m)->message, HasSubstr("in a circle: a after b after a"));
  }
}

/// A branch: in step 2 rank 1 does not come to `head`, and waits for `a` before its step ends.
TEST(Topo, LeavesThePlanOnAllRanksWhereOneWaitsForWhatItHoldsBack) {
  OrderingMembers members(2, TopoOptions{});
  const ExecutedGraph graph = graph_of({"head", "a"}, {"a", "head"});
  for (int s = 0; s < 2; ++s) {
    for (int m : {0, 1}) step(members, m, {"head", "a"}, graph);
    members.run(30ms);
  }
  ASSERT_TRUE(members.topo(0).planned());
  members.reduced.clear();
  for (const char* name : {"head", "a"}) ASSERT_TRUE(members.submit(0, name));
  members.wait(0, "a");
  ASSERT_TRUE(members.submit(1, "a"));
  members.wait(1, "a");
  members.run(190ms);
  EXPECT_THAT(members.lines, IsEmpty());
  members.run(50ms);
  EXPECT_THAT(members.lines,
              ElementsAre("step 2: rank 1 has no gradient for head; coordinator until the graph is stable"));
  EXPECT_EQ(members.void_buffers, 2) << "the one buffer, and the end";
  EXPECT_THAT(members.reduced, ElementsAre("a: 1 1"));
  for (int m : {0, 1}) {
    members[m].blocked(std::nullopt, members.now);
    members[m].executed(2, graph);
    members.end_step(m);
  }
  members.run(30ms);
  EXPECT_THAT(members.reduced, ElementsAre("a: 1 1", "head: 1 0"));
  EXPECT_EQ(members[0].closed(), 3u);
  EXPECT_FALSE(members.topo(0).planned());
  for (int s = 0; s < 2; ++s) {  // two equal steps, after the first deviation
    for (int m : {0, 1}) step(members, m, {"head", "a"}, graph);
    members.run(30ms);
  }
  EXPECT_TRUE(members.topo(0).planned());
}

/// Rank 1 computes for a second between the tensors of the planned step, and does not come to `head` in the next.
TEST(Topo, IsPatientWithWhoComputesForLongButNotUntilTheTimeLimit) {
  const ExecutedGraph graph = graph_of({"head", "a"}, {"a", "head"});
  const auto left_after = [&](Duration limit, bool waits) {
    OrderingMembers members(2, TopoOptions{.coordinator = {.stall_abort = limit}});
    step(members, 0, {"head", "a"}, graph);
    EXPECT_TRUE(members.submit(1, "head"));
    members.run(1ms);
    if (waits) members.wait(1, "head");
    members.run(1s);
    if (waits) members[1].blocked(std::nullopt, members.now);
    step(members, 1, {"a"}, graph);
    members.run(30ms);
    EXPECT_TRUE(members.topo(1).planned());
    for (int m : {0, 1}) EXPECT_TRUE(members.submit(m, "a"));
    members.wait(1, "a");
    const TimePoint from = members.now;
    while (members.lines.empty() && members.now - from < 60s) members.run(100ms);
    return members.now - from;
  };
  EXPECT_EQ(left_after(0s, false), 10s);
  EXPECT_EQ(left_after(4s, false), 2s);
  EXPECT_EQ(left_after(0s, true), 200ms);
}

TEST(Topo, LeavesThePlanAtOnceForATensorThatIsNotInIt) {
  OrderingMembers members(2, TopoOptions{});
  for (int m : {0, 1}) step(members, m, {"a"}, graph_of({"a"}));
  members.run(30ms);
  members.reduced.clear();
  for (int m : {0, 1}) ASSERT_TRUE(members.submit(m, "a"));
  ASSERT_TRUE(members.submit(1, "new", 3));
  ASSERT_TRUE(members.submit(0, "new", 3));
  for (int m : {0, 1}) members.end_step(m);
  members.run(30ms);
  ASSERT_EQ(members.lines.size(), 2u);
  EXPECT_EQ(
      members.lines[1],
      "step 1: rank 1 submits new (float32, sum, 3 elements), which is not planned; coordinator until the graph is "
      "stable");
  EXPECT_EQ(members.void_buffers, 1);
  EXPECT_THAT(members.reduced, ElementsAre("a: 1 1", "new: 1 1")) << "one is cached";
  EXPECT_EQ(members[1].closed(), 2u);
}

TEST(Topo, FailsAtAChangeWhereThatIsAsked) {
  OrderingMembers members(1, TopoOptions{.on_change = TopoOptions::OnChange::fail});
  step(members, 0, {"a"}, graph_of({"a"}));
  members.run(30ms);
  ASSERT_TRUE(members.submit(0, "b"));
  members.run(1ms);
  ASSERT_TRUE(members.failure(0));
  EXPECT_EQ(members.failure(0)->code, Errc::diverged);
}

TEST(Topo, ADrainedRankBringsNullsUntilAllHaveDrained) {
  OrderingMembers members(2, TopoOptions{});
  for (int m : {0, 1}) step(members, m, {"a"}, graph_of({"a"}));
  members.run(30ms);
  members[1].drained();
  const int controls = members.controls();
  for (int s = 1; s < 4; ++s) {
    step(members, 0, {"a"}, graph_of({"a"}));
    members.run(30ms);
    ASSERT_EQ(members[0].closed(), s + 1u);
    EXPECT_EQ(members.reduced.back(), "a: 1 0");
  }
  members[0].drained();
  members.run(30ms);
  EXPECT_TRUE(members.ended(0));
  EXPECT_TRUE(members.ended(1));
  EXPECT_EQ(members.controls(), controls);
}

TEST(Topo, ARankThatHasDrainedBeforeThePlanIsSentIt) {
  OrderingMembers members(2, TopoOptions{});
  members[0].drained();
  for (int s = 0; s < 3; ++s) {
    step(members, 1, {"a"}, graph_of({"a"}));
    members.run(30ms);
    ASSERT_EQ(members[1].closed(), s + 1u);
  }
  EXPECT_TRUE(members.topo(0).planned());
  EXPECT_THAT(members.reduced, ElementsAre("a: 0 1", "a: 0 1", "a: 0 1"));
}

TEST(Topo, PlansByWhatItSeesWhereNoGraphIsTold) {
  OrderingMembers members(1, TopoOptions{.coordinator = {.fusion_bytes = 4}});
  for (const char* name : {"z", "a"}) ASSERT_TRUE(members.submit(0, name));
  members.end_step(0);
  members.run(30ms);
  members.reduced.clear();
  for (const char* name : {"a", "z"}) ASSERT_TRUE(members.submit(0, name));
  members.end_step(0);
  members.run(1ms);
  EXPECT_THAT(members.reduced, ElementsAre("z: 1", "a: 1"));
}

}  // namespace
}  // namespace stretto
