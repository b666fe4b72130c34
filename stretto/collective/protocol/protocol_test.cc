#include "stretto/collective/protocol/protocol.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

using namespace std::chrono_literals;
using Kind = RoundAction::Kind;

RoundProtocol protocol(int rank, int ranks, Policy policy, int max_lag = 4) {
  return RoundProtocol({rank}, ranks, max_lag, PolicyRule(policy, ranks, 1));
}

TimePoint at(Duration d) {
  return TimePoint{1h + d};
}

void complete(RoundProtocol& p, Round round, std::initializer_list<int> drained = {}, int ranks = 4) {
  RoundHeader header(ranks);
  header.batches = 1;
  for (int rank : drained) header.drained.insert(rank);
  p.round_completed(round, header);
}

TEST(RoundProtocol, SoloStartsWithWhoeverComesFirst) {
  auto p = protocol(2, 4, Policy::solo());
  EXPECT_FALSE(p.next_action(at(0s)));
  p.application_arrived(0);
  const auto action = p.next_action(at(0s));
  ASSERT_TRUE(action);
  EXPECT_EQ(action->kind, Kind::activate);
  EXPECT_EQ(action->round, 0u);
  EXPECT_FALSE(p.next_action(at(0s))) << "once";
  EXPECT_TRUE(p.may_join());
}

TEST(RoundProtocol, JoinsOnlyWithinTheBoundOnTheLag) {
  auto p = protocol(1, 4, Policy::solo(), 2);
  EXPECT_TRUE(p.message_of(5)) << "activates all rounds up to 5";
  p.join();
  p.join();
  EXPECT_FALSE(p.may_join()) << "s = 2 = h + W";
  EXPECT_TRUE(p.held());
  complete(p, 0);
  EXPECT_FALSE(p.may_join()) << "complete is not handed over";
  p.application_handed(1);
  EXPECT_TRUE(p.may_join());
}

TEST(RoundProtocol, DropsMessagesOfRoundsThatAreOver) {
  auto p = protocol(1, 4, Policy::solo());
  ASSERT_TRUE(p.message_of(0));
  p.join();
  complete(p, 0);
  EXPECT_FALSE(p.message_of(0));
  EXPECT_TRUE(p.message_of(1));
}

TEST(RoundProtocol, TheCounterStartsAtTheQuorumCountingDrainedRanks) {
  auto p = protocol(0, 5, Policy::at_least(3));
  p.peer_arrived(3, 0, at(0s));
  EXPECT_FALSE(p.next_action(at(0s)));
  p.peer_arrived(3, 0, at(0s));
  EXPECT_FALSE(p.next_action(at(0s))) << "the same rank twice";
  p.peer_drained(4);
  EXPECT_FALSE(p.next_action(at(0s)));
  p.application_arrived(0);
  const auto action = p.next_action(at(0s));
  ASSERT_TRUE(action);
  EXPECT_EQ(action->kind, Kind::activate);
}

TEST(RoundProtocol, DrainedRanksAloneStartNothingUntilAllAre) {
  auto p = protocol(0, 3, Policy::at_least(2));
  p.peer_drained(1);
  p.peer_drained(2);
  EXPECT_FALSE(p.next_action(at(0s))) << "nobody has arrived";
  p.application_drained();
  const auto action = p.next_action(at(0s));
  ASSERT_TRUE(action) << "the last round";
  p.join();
  complete(p, 0, {0, 1, 2}, 3);
  EXPECT_TRUE(p.stopped());
  EXPECT_FALSE(p.next_action(at(0s)));
  EXPECT_FALSE(p.message_of(1));
}

TEST(RoundProtocol, WhoeverComesEntersAFullRoundAndAsksNobody) {
  auto p = protocol(2, 3, Policy::full());
  EXPECT_FALSE(p.next_action(at(0s)));
  EXPECT_TRUE(p.message_of(0, true));
  EXPECT_FALSE(p.may_join()) << "another rank has entered; this one has not come";
  EXPECT_FALSE(p.held()) << "it does not wait for results to be handed over";
  p.application_arrived(0);
  EXPECT_TRUE(p.may_join());
  p.join();
  EXPECT_FALSE(p.next_action(at(0s))) << "it is open here already";
  EXPECT_TRUE(p.message_of(1, true)) << "another rank has completed round 0 and entered round 1";
  EXPECT_TRUE(p.message_of(0, true)) << "of a slower pair of ranks";
  EXPECT_FALSE(p.may_join());
  complete(p, 0, {}, 3);
  EXPECT_FALSE(p.may_join()) << "arrived at round 0 only";
  p.application_handed(1);
  p.application_drained();
  EXPECT_TRUE(p.may_join()) << "a drained rank has come to all rounds";
}

TEST(RoundProtocol, ADrainedRankEntersFullRoundsUntilTheLast) {
  auto p = protocol(0, 2, Policy::full());
  p.application_drained();
  const auto action = p.next_action(at(0s));
  ASSERT_TRUE(action);
  EXPECT_EQ(action->kind, Kind::activate);
  p.join();
  complete(p, 0, {0}, 2);
  p.application_handed(1);
  ASSERT_TRUE(p.next_action(at(0s)));
  p.join();
  complete(p, 1, {0, 1}, 2);
  EXPECT_TRUE(p.stopped());
  EXPECT_FALSE(p.next_action(at(0s)));
}

TEST(RoundProtocol, TheCounterKeepsArrivalsAtLaterRounds) {
  auto p = protocol(0, 3, Policy::at_least(2));
  p.peer_arrived(1, 0, at(0s));
  p.peer_arrived(2, 0, at(0s));
  ASSERT_TRUE(p.next_action(at(0s)));
  p.join();
  p.peer_arrived(1, 1, at(0s));
  p.peer_arrived(2, 1, at(0s));
  EXPECT_FALSE(p.next_action(at(0s))) << "its own open round is still 0";
  complete(p, 0, {}, 3);
  const auto action = p.next_action(at(0s));
  ASSERT_TRUE(action);
  EXPECT_EQ(action->round, 1u);
}

TEST(RoundProtocol, OthersTellTheCounterOnce) {
  auto p = protocol(2, 3, Policy::at_least(3));
  p.application_arrived(0);
  const auto arrive = p.next_action(at(0s));
  ASSERT_TRUE(arrive);
  EXPECT_EQ(arrive->kind, Kind::arrive);
  EXPECT_FALSE(p.next_action(at(0s)));
  p.application_drained();
  const auto drain = p.next_action(at(0s));
  ASSERT_TRUE(drain);
  EXPECT_EQ(drain->kind, Kind::drain);
  EXPECT_FALSE(p.next_action(at(0s)));
}

TEST(RoundProtocol, ADeadlineCountsFromTheFirstArrival) {
  auto p = protocol(0, 4, Policy::deadline(2, 20ms));
  p.peer_arrived(1, 0, at(0ms));
  EXPECT_FALSE(p.next_action(at(30ms))) << "one is below the quorum, however late it is";
  p.peer_arrived(2, 0, at(5ms));
  EXPECT_FALSE(p.next_action(at(10ms)));
  EXPECT_EQ(p.act_by(), at(20ms));
  EXPECT_TRUE(p.next_action(at(20ms)));
}

TEST(RoundProtocol, ADeadlineDoesNotWaitWhenAllHaveCome) {
  auto p = protocol(0, 3, Policy::deadline(1, 20ms));
  p.peer_arrived(1, 0, at(0ms));
  p.peer_arrived(2, 0, at(0ms));
  EXPECT_FALSE(p.next_action(at(1ms)));
  p.application_arrived(0);
  EXPECT_TRUE(p.next_action(at(1ms)));
}

TEST(RoundProtocol, AnAdaptiveDeadlineLearnsFromArrivals) {
  auto p = protocol(0, 4, Policy::adaptive_deadline(1), 1000);
  for (Round round = 0; round < 50; ++round) {
    const Duration start = 100ms * static_cast<int>(round);
    // Offsets 0, 2, 4 ms: median 2, median deviation 2, so patience 2 + 3 · 2 = 8 ms once it has seen some.
    p.peer_arrived(1, round, at(start));
    p.peer_arrived(2, round, at(start + 2ms));
    p.peer_arrived(3, round, at(start + 4ms));
    if (round == 49) {
      EXPECT_FALSE(p.next_action(at(start + 4ms)));
      EXPECT_EQ(p.act_by(), at(start + 8ms));
    }
    ASSERT_TRUE(p.next_action(at(start + 50ms)));
    p.join();
    complete(p, round);
  }
}

// ---- the ranks of a board ----

/// Ranks 2, 3, 4 of 7, behind the board of the counter, which is 0, 1.
RoundProtocol board(Policy policy, int max_lag = 4) {
  return RoundProtocol({2, 3, 4}, 7, max_lag, PolicyRule(policy, 7, 1));
}

TEST(RoundProtocolOfABoard, TellsTheCounterOfEachRankThatComes) {
  auto p = board(Policy::at_least(5));
  p.application_arrived(0, 1);
  p.application_arrived(0, 2);
  auto action = p.next_action(at(0s));
  ASSERT_TRUE(action);
  EXPECT_EQ(action->kind, Kind::arrive);
  EXPECT_EQ(action->rank, 3);
  action = p.next_action(at(0s));
  ASSERT_TRUE(action);
  EXPECT_EQ(action->kind, Kind::arrive);
  EXPECT_EQ(action->round, 0u);
  EXPECT_EQ(action->rank, 4);
  EXPECT_FALSE(p.next_action(at(0s))) << "each once";
  p.application_drained(0);
  action = p.next_action(at(0s));
  ASSERT_TRUE(action);
  EXPECT_EQ(action->kind, Kind::drain);
  EXPECT_EQ(action->rank, 2);
  EXPECT_FALSE(p.next_action(at(0s)));
}

TEST(RoundProtocolOfABoard, TheCounterCountsItsOwnRanksAndThoseOfOthersOneByOne) {
  RoundProtocol p({0, 1}, 7, 4, PolicyRule(Policy::at_least(4), 7, 1));
  p.application_arrived(0, 0);
  p.application_arrived(0, 1);
  p.peer_arrived(6, 0, at(0s));
  EXPECT_FALSE(p.next_action(at(0s)));
  EXPECT_EQ(p.missing().count(), 4);
  EXPECT_TRUE(p.missing().contains(2));
  p.peer_drained(3);
  const auto action = p.next_action(at(0s));
  ASSERT_TRUE(action);
  EXPECT_EQ(action->kind, Kind::activate);
}

TEST(RoundProtocolOfABoard, SoloStartsWithWhoeverComesFirstAtAnySeat) {
  auto p = board(Policy::solo());
  EXPECT_FALSE(p.next_action(at(0s)));
  p.application_arrived(0, 2);
  const auto action = p.next_action(at(0s));
  ASSERT_TRUE(action);
  EXPECT_EQ(action->kind, Kind::activate);
  p.application_arrived(0, 0);
  EXPECT_FALSE(p.next_action(at(0s))) << "it has started";
  EXPECT_TRUE(p.may_join());
}

TEST(RoundProtocolOfABoard, MajorityWaitsForTheSeatThatIsDrawn) {
  const std::uint64_t seed = [] {
    for (std::uint64_t seed = 1;; ++seed) {
      if (PolicyRule(Policy::majority(), 7, seed).current().initiator == 3) return seed;
    }
  }();
  RoundProtocol p({2, 3, 4}, 7, 4, PolicyRule(Policy::majority(), 7, seed));
  p.application_arrived(0, 0);
  p.application_drained(2);
  EXPECT_EQ(p.next_action(at(0s))->kind, Kind::drain);
  EXPECT_FALSE(p.next_action(at(0s)));
  p.application_arrived(0, 1);
  const auto action = p.next_action(at(0s));
  ASSERT_TRUE(action);
  EXPECT_EQ(action->kind, Kind::activate);

  RoundProtocol other({5, 6}, 7, 4, PolicyRule(Policy::majority(), 7, seed));
  other.application_arrived(0, 0);
  other.application_arrived(0, 1);
  EXPECT_FALSE(other.next_action(at(0s))) << "rank 3 is at another board";
}

TEST(RoundProtocolOfABoard, EntersAFullRoundWhenAllItsRanksHaveComeOrDrained) {
  auto p = board(Policy::full());
  p.application_arrived(0, 0);
  p.application_arrived(0, 2);
  EXPECT_TRUE(p.message_of(0, true)) << "another board has entered";
  EXPECT_FALSE(p.next_action(at(0s)));
  EXPECT_FALSE(p.may_join_but_for_lag());
  p.application_drained(1);
  EXPECT_EQ(p.next_action(at(0s))->kind, Kind::drain);
  EXPECT_TRUE(p.may_join());
  p.join();
  complete(p, 0, {3}, 7);
  p.application_handed(1);
  EXPECT_FALSE(p.next_action(at(0s)));
  p.application_arrived(1, 0);
  EXPECT_FALSE(p.next_action(at(0s))) << "seat 2 is still at round 0";
  p.application_arrived(1, 2);
  const auto action = p.next_action(at(0s));
  ASSERT_TRUE(action);
  EXPECT_EQ(action->kind, Kind::activate);
}

TEST(RoundProtocolOfABoard, TheBoundOnTheLagMayBeSeenToByTheBoard) {
  auto p = board(Policy::solo(), 1);
  ASSERT_TRUE(p.message_of(0));
  p.join();
  complete(p, 0, {}, 7);
  ASSERT_TRUE(p.message_of(1));
  EXPECT_TRUE(p.may_join_but_for_lag());
  EXPECT_FALSE(p.may_join());
  p.application_handed(1);
  EXPECT_TRUE(p.may_join());
}

TEST(RoundProtocolOfABoard, TheLastRoundStartsWhenEverySeatOfEveryBoardHasDrained) {
  RoundProtocol p({0, 1}, 3, 4, PolicyRule(Policy::solo(), 3, 1));
  p.peer_drained(2);
  p.application_drained(1);
  EXPECT_FALSE(p.next_action(at(0s)));
  p.application_drained(0);
  const auto action = p.next_action(at(0s));
  ASSERT_TRUE(action);
  EXPECT_EQ(action->kind, Kind::activate);
  p.join();
  complete(p, 0, {0, 1, 2}, 3);
  EXPECT_TRUE(p.stopped());
}

TEST(RoundProtocol, RefusesALagBelowOne) {
  EXPECT_THROW(protocol(0, 2, Policy::solo(), 0), UsageError);
}

}  // namespace
}  // namespace stretto
