#include "stretto/collective/protocol/group_protocol.h"

#include <gtest/gtest.h>

#include "stretto/base/error.h"
#include "stretto/collective/protocol/ticket.h"

namespace stretto {
namespace {

using Kind = RoundAction::Kind;

TEST(GroupProtocol, TheFirstRankStartsAGroupRoundForAllOnce) {
  GroupProtocol p({1}, 4, 10, 0);
  EXPECT_FALSE(p.may_join());
  EXPECT_FALSE(p.next_action({}));
  p.application_arrived(0);
  const auto action = p.next_action({});
  ASSERT_TRUE(action);
  EXPECT_EQ(action->kind, Kind::activate);
  EXPECT_EQ(action->round, 0u);
  EXPECT_FALSE(p.next_action({})) << "told once";
  EXPECT_TRUE(p.may_join());
}

TEST(GroupProtocol, PassesAnActivationOnOnceAndDropsThoseOfRoundsThatAreOver) {
  GroupProtocol p({1}, 4, 10, 0);
  EXPECT_TRUE(p.message_of(2, true));
  EXPECT_EQ(p.next_action({})->round, 2u) << "one of a later round starts those before it";
  EXPECT_TRUE(p.message_of(1, true));
  EXPECT_FALSE(p.next_action({}));
  for (Round round = 0; round < 3; ++round) {
    ASSERT_TRUE(p.may_join()) << round;
    p.join();
    EXPECT_FALSE(p.may_join()) << "one round in flight";
    p.round_completed(false);
  }
  EXPECT_FALSE(p.may_join());
  EXPECT_FALSE(p.message_of(1, true));
  EXPECT_FALSE(p.may_join());
}

TEST(GroupProtocol, AFullRoundWaitsForTheApplicationAndAsksNobodyIn) {
  GroupProtocol p({1}, 4, 1, 0);
  EXPECT_TRUE(p.full(0));
  EXPECT_TRUE(p.message_of(0, false));
  EXPECT_FALSE(p.may_join());
  p.application_arrived(0);
  EXPECT_FALSE(p.next_action({})) << "nobody starts it for others";
  EXPECT_TRUE(p.may_join());
}

TEST(GroupProtocol, TheNextBlockBeginsWhenTheResultOfTheFullRoundIsTaken) {
  GroupProtocol p({1}, 4, 2, 0);
  p.message_of(0, true);
  p.join();
  p.round_completed(false);
  p.application_arrived(1);
  p.join();
  p.round_completed(false);
  p.message_of(2, true);
  EXPECT_FALSE(p.may_join());
  p.application_took(2);
  EXPECT_TRUE(p.may_join());
}

TEST(GroupProtocol, TheCounterStartsWhenAQuorumHasComeOrDrainedAndSomebodyHasCome) {
  GroupProtocol counter({0}, 4, 10, 3);
  counter.peer_drained(3);
  counter.peer_drained(2);
  EXPECT_FALSE(counter.next_action({})) << "nobody has come";
  counter.peer_arrived(1, 1, {});
  EXPECT_FALSE(counter.next_action({})) << "at another round";
  counter.peer_arrived(1, 0, {});
  EXPECT_EQ(counter.next_action({})->kind, Kind::activate);

  GroupProtocol other({1}, 4, 10, 3);
  other.application_arrived(0);
  EXPECT_EQ(other.next_action({})->kind, Kind::arrive);
  EXPECT_FALSE(other.next_action({}));
  EXPECT_FALSE(other.may_join());
}

TEST(GroupProtocol, WhenAllHaveDrainedTheCounterFinishesTheBlock) {
  GroupProtocol counter({0}, 2, 3, 0);
  counter.application_drained();
  EXPECT_FALSE(counter.next_action({}));
  counter.peer_drained(1);
  EXPECT_EQ(counter.next_action({})->kind, Kind::activate);
  counter.join();
  counter.round_completed(false);
  EXPECT_EQ(counter.next_action({})->round, 1u);
  counter.join();
  counter.round_completed(false);
  EXPECT_FALSE(counter.next_action({})) << "round 2 is full";
  counter.application_arrived(2);
  counter.join();
  counter.round_completed(true);
  EXPECT_TRUE(counter.stopped());
  EXPECT_FALSE(counter.message_of(3, true));
}

TEST(GroupProtocol, ALeaderSpeaksForEachRankOfItsBoard) {
  GroupProtocol p({2, 3}, 6, 2, 3);
  p.application_arrived(0, 1);
  const auto arrived = p.next_action({});
  ASSERT_TRUE(arrived);
  EXPECT_EQ(arrived->kind, Kind::arrive);
  EXPECT_EQ(arrived->rank, 3);
  EXPECT_FALSE(p.next_action({})) << "told once";
  EXPECT_TRUE(p.message_of(0, true));
  EXPECT_EQ(p.next_action({})->kind, Kind::activate);
  ASSERT_TRUE(p.may_join());
  p.join();
  p.round_completed(false);

  p.application_arrived(1, 0);
  EXPECT_FALSE(p.may_join()) << "a full round waits for every rank of the board";
  p.application_arrived(1, 1);
  ASSERT_TRUE(p.may_join());
  p.join();
  p.round_completed(false);

  EXPECT_TRUE(p.message_of(2, true));
  p.application_took(2, 1);
  EXPECT_FALSE(p.may_join()) << "rank 2 has not taken the result of the full round";
  p.application_took(2, 0);
  EXPECT_TRUE(p.may_join());

  p.application_drained(1);
  const auto drained = p.next_action({});
  ASSERT_TRUE(drained);
  EXPECT_EQ(drained->kind, Kind::drain);
  EXPECT_EQ(drained->rank, 3);
}

TEST(GroupTicket, ALateRankMakesEveryIterationOrJumps) {
  GroupTicket every(false), jumps(true);
  for (GroupTicket* ticket : {&every, &jumps}) {
    EXPECT_FALSE(ticket->late(0));
    EXPECT_TRUE(ticket->late(5));
    ticket->passed(5);
  }
  EXPECT_EQ(every.next(), 1u);
  EXPECT_EQ(jumps.next(), 5u);
  EXPECT_EQ(jumps.jumped(), 4u);
  every.used(5);
  every.follow();
  EXPECT_EQ(every.next(), 5u) << "a drained rank is where its newest result is";
}

}  // namespace
}  // namespace stretto
