#include "stretto/ordering/waiting/stall_inquiry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/ordering/testing/members.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// ---- the questions alone ----

TEST(StallInquiry, AsksOnceAWaitAndAgainWhenTheTimeIsOver) {
  StallInquiry inquiry(0, {4, 6}, 0, 10s, 60s);
  const TimePoint since{5s};
  EXPECT_EQ(inquiry.next_look(since).since_start, 15s);
  EXPECT_EQ(inquiry.next_look(std::nullopt), TimePoint::never());
  EXPECT_FALSE(inquiry.due(since, since + 9s));
  ASSERT_TRUE(inquiry.due(since, since + 10s));
  inquiry.ask({.step = 3, .buffer = 2, .tensor = "a", .blocks = true});
  EXPECT_FALSE(inquiry.due(since, since + 10s));
  EXPECT_EQ(inquiry.next_look(since), since + 11s);
  const auto letter = inquiry.take_letter();
  ASSERT_TRUE(letter);
  EXPECT_EQ(letter->first, 1);
  EXPECT_FALSE(inquiry.take_letter());
  EXPECT_EQ(inquiry.complete(since + 10s), nullptr);
  ASSERT_NE(inquiry.complete(since + 11s), nullptr);
  const auto report = inquiry.report({.step = 3});
  EXPECT_EQ(report.line, "step 3, after 10 s: a: rank 4 has it; rank 6 has not answered within 1 s");
  EXPECT_FALSE(report.fails);
  EXPECT_FALSE(inquiry.due(since, since + 59s));
  EXPECT_EQ(inquiry.next_look(since), since + 60s);
  EXPECT_TRUE(inquiry.due(since, since + 60s));
  EXPECT_TRUE(inquiry.due(since + 61s, since + 71s)) << "another wait";
}

TEST(StallInquiry, FailsByTheQuestionThatIsOpenWhenTheTimeIsOver) {
  StallInquiry inquiry(0, {0, 1}, 0, 10s, 10s + 500ms);
  ASSERT_TRUE(inquiry.due(TimePoint{}, TimePoint{10s}));
  inquiry.ask({.tensor = "a"});
  EXPECT_FALSE(inquiry.due(TimePoint{}, TimePoint{10s + 600ms}));
  ASSERT_NE(inquiry.complete(TimePoint{11s}), nullptr);
  EXPECT_TRUE(inquiry.report({}).fails);
}

TEST(StallInquiry, NamesTheFirstTensorThatSomeRankLacks) {
  StallInquiry inquiry(0, {0, 1, 2, 5, 7}, 0, 10s, 0s);
  ASSERT_TRUE(inquiry.due(TimePoint{}, TimePoint{10s}));
  inquiry.ask({.step = 3, .buffer = 2, .tensor = "z", .blocks = true});
  const auto says = [&](int member, StallAnswer answer) { ASSERT_TRUE(inquiry.take(member, encode_stall(answer))); };
  says(1, {.step = 3, .holds_back = true, .place = 8, .lacks = "y", .waits_for = "x", .since = 3s});
  says(2, {.step = 3, .holds_back = true, .place = 4, .lacks = "x", .since = 9s + 840ms});
  says(3, {.step = 2, .since = 2s});
  says(4, {.number = 9, .step = 3, .holds_back = true, .lacks = "another question"});
  EXPECT_EQ(inquiry.complete(TimePoint{10s}), nullptr);
  says(4, {.step = 4});
  ASSERT_NE(inquiry.complete(TimePoint{10s}), nullptr);
  EXPECT_EQ(inquiry.report({.step = 3}).line,
            "step 3, after 10 s: rank 0 waits for z; x: ranks 0, 1, 7 have it, ranks 2, 5 have not; rank 2 has "
            "computed for 9.8 s; rank 5 is in step 2 and has computed for 2 s");
  says(1, {.step = 3});  // late, and of no question
  EXPECT_EQ(inquiry.complete(TimePoint{20s}), nullptr);
}

TEST(StallInquiry, SaysWhatARankDoes) {
  const StallQuestion asked{.step = 3};
  EXPECT_EQ((StallAnswer{.step = 3, .since = 1s}).does(asked, 0), "has computed for 1 s");
  EXPECT_EQ((StallAnswer{.step = 3, .waits_for = "a", .since = 1s}).does(asked, 0), "has waited 1 s for a");
  EXPECT_EQ((StallAnswer{.step = 3, .waits_for = "a", .waits_in = 2, .since = 1s}).does(asked, 0),
            "has waited 1 s for a of set 2");
  EXPECT_EQ((StallAnswer{.step = 3, .ended = true}).does(asked, 0), "has ended the step");
  EXPECT_EQ((StallAnswer{.step = 2, .ended = true}).does(asked, 0), "is in step 2 and has ended the step");
  EXPECT_EQ((StallAnswer{.step = 3, .ended = true, .drained = true}).does(asked, 0), "has drained");
}

TEST(StallInquiry, MessagesComeBackAsTheyWereAndNoOthersAreTaken) {
  const StallAnswer answer{.number = 1,
                           .step = 2,
                           .holds_back = true,
                           .drained = true,
                           .place = 3,
                           .lacks = "a",
                           .waits_for = "b",
                           .waits_in = 4,
                           .since = 5ns};
  const auto read = decode_stall(encode_stall(answer));
  ASSERT_TRUE(read);
  const auto& back = std::get<StallAnswer>(*read);
  EXPECT_EQ(encode_stall(back), encode_stall(answer));
  EXPECT_EQ(back.lacks, "a");
  EXPECT_EQ(back.waits_for, "b");
  EXPECT_EQ(back.since, 5ns);
  const auto question = decode_stall(encode_stall(StallQuestion{.number = 6, .step = 7, .buffer = 8}));
  ASSERT_TRUE(question);
  EXPECT_EQ(std::get<StallQuestion>(*question).buffer, 8u);
  EXPECT_LE(encode_stall(StallAnswer{.lacks = std::string(5000, 'x'), .waits_for = std::string(5000, 'y')}).size(),
            3000u);
  std::vector<std::byte> bytes = encode_stall(answer);
  bytes.pop_back();
  EXPECT_EQ(decode_stall(bytes).error().code, Errc::bad_input);
  EXPECT_FALSE(decode_stall({}));
}

// ---- topo asks ----

ExecutedGraph chain_free(const std::vector<std::string>& names) {
  ExecutedGraph graph;
  for (const std::string& name : names) graph.collectives.push_back({graph.num_nodes++, {.name = name, .count = 1}});
  const ExecutedGraph::Node end = graph.num_nodes++;
  for (const auto& [node, tensor] : graph.collectives) graph.edges.push_back({node, end});
  return graph;
}

/// A buffer for each of a, b, c; all have executed one step by the plan.
OrderingMembers planned_members(int members, Duration patience = 1000s) {
  OrderingMembers all(members, TopoOptions{.coordinator = {.fusion_bytes = 4}, .plan_patience = patience});
  for (int s = 0; s < 2; ++s) {
    for (int m = 0; m < members; ++m) {
      for (const char* name : {"a", "b", "c"}) EXPECT_TRUE(all.submit(m, name));
      all[m].executed(all[m].closed(), chain_free({"a", "b", "c"}));
      all.end_step(m);
    }
    all.run(30ms);
  }
  EXPECT_TRUE(all.topo(0).planned());
  EXPECT_EQ(all.told, 0);
  return all;
}

TEST(TopoStall, SaysWhoLacksWhatAndFailsInTheEnd) {
  for (const int ranks : {2, 3, 5}) {
    OrderingMembers members = planned_members(ranks);
    for (int m = 0; m + 1 < ranks; ++m) {
      for (const char* name : {"a", "b"}) ASSERT_TRUE(members.submit(m, name));
    }
    ASSERT_TRUE(members.submit(ranks - 1, "a"));
    members.wait(0, "b");
    members.run(9s + 900ms);
    EXPECT_EQ(members.told, 0);
    EXPECT_THAT(members.lines, IsEmpty());
    members.run(1s);
    const std::string have = ranks == 2   ? "rank 0 has it"
                             : ranks == 3 ? "ranks 0, 1 have it"
                                          : "ranks 0, 1, 2, 3 have it";
    const std::string who =
        text(": b: ", have, ", rank ", ranks - 1, " has not; rank ", ranks - 1, " has computed for ");
    EXPECT_THAT(members.lines, ElementsAre("step 2, after 10 s" + who + "10 s"));
    EXPECT_EQ(members.told, 2 * (ranks - 1)) << "a question and an answer for each other member";
    members.run(48s);
    EXPECT_FALSE(members.failure(0));
    members.run(2s);
    ASSERT_TRUE(members.failure(0));
    EXPECT_EQ(members.failure(0)->code, Errc::timeout);
    EXPECT_EQ(members.failure(0)->message, "step 2, after 60 s" + who + "60 s");
    EXPECT_EQ(members.lines.size(), 1u);
  }
}

TEST(TopoStall, ARankThatHasEndedTheStepAsksToo) {
  OrderingMembers members = planned_members(3);
  for (int m : {0, 1, 2}) ASSERT_TRUE(members.submit(m, "a"));
  for (int m : {0, 2}) members.end_step(m);
  members.run(10s + 100ms);
  const std::string line = "step 2, after 10 s: b: ranks 0, 2 have it, rank 1 has not; rank 1 has computed for 10 s";
  EXPECT_THAT(members.lines, ElementsAre(line, line)) << "of both that wait";
}

TEST(TopoStall, NamesTheEndOfTheStepWhereNothingElseLacks) {
  OrderingMembers members = planned_members(2);
  for (int m : {0, 1}) {
    for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(members.submit(m, name));
  }
  members.end_step(0);
  members.run(10s + 100ms);
  EXPECT_THAT(members.lines, ElementsAre("step 2, after 10 s: the end of the step: rank 0 has it, rank 1 has not; "
                                         "rank 1 has computed for 10 s"));
}

TEST(TopoStall, NamesWhatTheOtherWaitsForAndWhoSaysNothing) {
  OrderingMembers members = planned_members(3);
  ASSERT_TRUE(members.submit(0, "a"));
  members.wait(0, "a");
  ASSERT_TRUE(members.submit(1, "b"));
  members.run(4s);
  members.wait(1, "b");
  members.deaf = {2};
  members.run(6s + 900ms);
  EXPECT_THAT(members.lines, IsEmpty()) << "rank 2 has another tenth of a second";
  members.run(200ms);
  EXPECT_THAT(members.lines, ElementsAre("step 2, after 10 s: a: rank 0 has it, rank 1 has not; rank 1 has waited 6 s "
                                         "for b; rank 2 has not answered within 1 s"));
}

TEST(TopoStall, IsNoMoreWhereTheWaitIsOverBeforeAllHaveAnswered) {
  OrderingMembers members = planned_members(2);
  ASSERT_TRUE(members.submit(0, "a"));
  members.wait(0, "a");
  members.deaf = {1};
  members.run(10s + 500ms);
  EXPECT_EQ(members.told, 1);
  ASSERT_TRUE(members.submit(1, "a"));
  members.run(1ms);
  members[0].blocked(std::nullopt, members.now);
  members.run(20s);
  EXPECT_THAT(members.lines, IsEmpty());
}

TEST(TopoStall, ARankThatHasDrainedNeverAsksAndAnswers) {
  OrderingMembers members = planned_members(2);
  members[1].drained();
  members.run(30s);
  EXPECT_EQ(members.told, 0);
  EXPECT_THAT(members.lines, IsEmpty());
}

TEST(TopoStall, WhatCannotBeReadIsAnErrorAndACoordinatorIsToldNothing) {
  OrderingMembers members = planned_members(2);
  EXPECT_EQ(members[0].told(1, std::vector<std::byte>(7)).error().code, Errc::bad_input);
  OrderingMembers coordinators(2);
  EXPECT_EQ(coordinators[0].told(1, encode_stall(StallQuestion{})).error().code, Errc::bad_input);
}

}  // namespace
}  // namespace stretto
