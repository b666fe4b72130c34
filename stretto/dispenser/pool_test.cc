#include "stretto/dispenser/pool.h"

#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "stretto/dispenser/position.h"

namespace stretto {
namespace {

using Numbers = std::vector<std::uint64_t>;

TEST(Pool, HandsOutEachBatchOnceInOrder) {
  Pool pool(4);
  EXPECT_EQ(pool.take(7), 0u);
  EXPECT_EQ(pool.take(9), 1u);
  EXPECT_EQ(pool.take(7), 2u);
  EXPECT_EQ(pool.take(9), 3u);
  EXPECT_FALSE(pool.take(7));
  EXPECT_EQ(pool.in_hand(7), (Numbers{0, 2}));
  EXPECT_EQ(pool.in_hand(8), Numbers());
}

TEST(Pool, HandsOutFirstWhatALostMemberHadInHand) {
  Pool pool(6);
  for (int i = 0; i < 3; ++i) pool.take(1), pool.take(2);  // 0, 2, 4 and 1, 3, 5
  EXPECT_EQ(pool.give_back(1, 1, true), Numbers());
  EXPECT_EQ(pool.take(3), 2u);
  EXPECT_EQ(pool.take(2), 4u);
  EXPECT_FALSE(pool.take(2));
  EXPECT_EQ(pool.in_hand(2), (Numbers{1, 3, 5, 4}));
}

/// A pool in the middle of a job: returned batches, one that is gone, batches settled, computed and in hand.
Pool under_way() {
  Pool pool(20);
  for (int i = 0; i < 3; ++i) pool.take(1), pool.take(2), pool.take(3);
  pool.settle(2, 1);
  pool.computed(3, 2);
  pool.give_back(1, 1, true);
  return pool;
}

TEST(Pool, GoesOnFromItsNumbersAsItWouldHave) {
  for (Pool pool : {Pool(20), under_way()}) {
    Pool again = Pool::from_numbers(20, pool.numbers()).value();
    EXPECT_EQ(again.numbers(), pool.numbers());
    for (const std::uint64_t member : {3, 2, 1, 4, 2}) EXPECT_EQ(again.take(member), pool.take(member)) << member;
    EXPECT_EQ(again.handed_after(3, 1), pool.handed_after(3, 1));
    EXPECT_EQ(again.give_back(3, 0, true), pool.give_back(3, 0, true));
    EXPECT_EQ(again.numbers(), pool.numbers());
  }
}

TEST(Pool, RefusesNumbersThatItHasNotWritten) {
  const Numbers numbers = under_way().numbers();
  // Cut behind a hand they are those of a pool with fewer hands.
  std::size_t whole = 0;
  for (std::size_t cut = 0; cut < numbers.size(); ++cut) {
    whole += Pool::from_numbers(20, std::span(numbers).first(cut)).ok() ? 1 : 0;
  }
  EXPECT_EQ(whole, 3u);
  EXPECT_FALSE(Pool::from_numbers(3, numbers)) << "of more batches than the job has";
}

TEST(Pool, SaysAgainWhatAMemberWasHanded) {
  Pool pool(9);
  for (int i = 0; i < 3; ++i) pool.take(1), pool.take(2);  // 0, 2, 4 and 1, 3, 5
  EXPECT_EQ(pool.handed_after(1, 2), 4u);
  EXPECT_FALSE(pool.handed_after(1, 3));
  EXPECT_FALSE(pool.handed_after(7, 0)) << "it was handed none";
  pool.settle(1, 2);
  EXPECT_EQ(pool.handed_after(1, 2), 4u) << "the count is of all that it ever was handed";
  EXPECT_FALSE(pool.handed_after(1, 1)) << "it is settled";
  pool.give_back(1, 2, true);
  EXPECT_FALSE(pool.handed_after(1, 2)) << "it is gone";
}

TEST(Pool, CountsWhatWasAppliedFromTheFirstBatchOn) {
  Pool pool(6);
  for (int i = 0; i < 6; ++i) pool.take(1);
  pool.settle(1, 2);
  pool.settle(1, 2);
  pool.settle(1, 1);  // an older count changes nothing
  EXPECT_EQ(pool.in_hand(1), (Numbers{2, 3, 4, 5}));
  pool.give_back(1, 5, false);
  EXPECT_EQ(pool.take(2), 5u);
  EXPECT_FALSE(pool.take(2));
}

TEST(Pool, DropsABatchThatThreeLostMembersHadInHand) {
  Pool pool(2);
  for (const std::uint64_t member : {1, 2}) {
    EXPECT_EQ(pool.take(member), 0u);
    EXPECT_EQ(pool.give_back(member, 0, true), Numbers());
  }
  EXPECT_EQ(pool.take(3), 0u);
  EXPECT_EQ(pool.give_back(3, 0, false), Numbers()) << "who leaves does not count";
  EXPECT_EQ(pool.take(4), 0u);
  EXPECT_EQ(pool.take(4), 1u);
  EXPECT_EQ(Pool::dropped_in(pool.position()), 0u);
  EXPECT_EQ(pool.give_back(4, 0, true), (Numbers{0}));
  EXPECT_EQ(Pool::dropped_in(pool.position()), 1u);
  EXPECT_EQ(Pool::from_position(2, pool.position()).value().position(), pool.position());
  EXPECT_EQ(pool.take(5), 1u);
  EXPECT_FALSE(pool.take(5));
  pool.settle(5, 1);
  EXPECT_EQ(Pool::dropped_in(pool.position()), 1u);
  EXPECT_EQ(Pool::dropped_in({}), 0u);
}

/// Where models are averaged a member has all batches since the last full round in hand, of which it computes one.
TEST(Pool, CountsALossForWhatTheMemberWasComputingAlone) {
  Pool pool(4);
  for (const std::uint64_t member : {1, 2, 3}) {
    for (std::uint64_t batch = 0; batch < 4; ++batch) {
      pool.computed(member, batch);
      EXPECT_EQ(pool.take(member), batch);
    }
    EXPECT_EQ(pool.give_back(member, 0, true), member == 3 ? Numbers{3} : Numbers());
  }
  EXPECT_EQ(pool.position(), (Numbers{4, 3, 0, 1, 2, 3, 3}));
  EXPECT_EQ(pool.take(4), 0u);
  EXPECT_EQ(pool.take(4), 1u);
  pool.computed(4, 9);  // what it has not been handed it has not computed
  EXPECT_EQ(pool.take(4), 2u);
  pool.settle(4, 1);
  pool.computed(4, 1);  // an older count changes nothing
  pool.give_back(4, 1, true);
  EXPECT_EQ(pool.position(), (Numbers{4, 2, 1, 2, 2, 1, 3, 3}));
  pool.computed(5, 1);  // it has been handed nothing
  EXPECT_EQ(pool.take(5), 1u);
  EXPECT_EQ(pool.take(5), 2u);
  pool.give_back(5, 0, true);
  EXPECT_EQ(pool.position(), (Numbers{4, 2, 1, 2, 1, 1, 2, 2, 3, 3})) << "it may have been computing either";
}

TEST(Pool, ForgetsLossesOfABatchThatCounts) {
  Pool pool(1);
  pool.take(1);
  pool.give_back(1, 0, true);
  EXPECT_EQ(pool.position(), (Numbers{1, 1, 0, 0, 1}));
  pool.take(2);
  EXPECT_EQ(pool.position(), (Numbers{1, 0, 0, 1})) << "still in a hand that may be lost";
  pool.settle(2, 1);
  EXPECT_EQ(pool.position(), (Numbers{1, 0}));
}

TEST(Pool, TakesBackWhatNoLongerCounts) {
  Pool pool(4);
  for (int i = 0; i < 4; ++i) pool.take(1);
  pool.settle(1, 1);
  EXPECT_EQ(pool.give_back(1, 3, true), Numbers());
  EXPECT_EQ(pool.take(2), 3u);
  EXPECT_EQ(pool.members(), (Numbers{1, 2})) << "rounds of a view that has not begun may count no longer";
  EXPECT_EQ(pool.give_back(1, 2, true), Numbers());
  EXPECT_EQ(pool.take(2), 2u);
  pool.settle(1, 2);
  EXPECT_EQ(pool.members(), Numbers{2});
  EXPECT_EQ(pool.give_back(1, 2, true), Numbers()) << "nothing of it is left";
  EXPECT_FALSE(pool.take(2));
}

TEST(Pool, GivesNothingToAMemberThatIsGone) {
  Pool pool(3);
  pool.take(1);
  pool.give_back(1, 0, true);
  EXPECT_FALSE(pool.take(1)) << "it may not know yet that the others go on without it";
  EXPECT_EQ(pool.take(2), 0u);
}

TEST(Pool, GoesOnFromItsPosition) {
  Pool pool(9);
  for (int i = 0; i < 5; ++i) pool.take(1);
  pool.give_back(1, 2, true);
  Pool other = Pool::from_position(9, pool.position()).value();
  EXPECT_EQ(other.position(), pool.position());
  for (;;) {
    const auto batch = pool.take(2);
    EXPECT_EQ(other.take(2), batch);
    if (!batch) break;
  }
  EXPECT_EQ(pool.give_back(2, 0, true), other.give_back(2, 0, true));
  EXPECT_EQ(Pool::from_position(3, {}).value().take(1), 0u);
}

TEST(Pool, RefusesAPositionThatItCannotHaveWritten) {
  for (const Numbers& position : {Numbers{1}, Numbers{4, 0}, Numbers{2, 1}, Numbers{2, 2, 1, 0}, Numbers{2, 1, 2},
                                  Numbers{2, 0, 1}, Numbers{2, 0, 2, 1}, Numbers{2, 0, 1, 4}, Numbers{2, 0, 1, 0},
                                  Numbers{2, 0, 1, 1, 1, 1}, Numbers{2, ~std::uint64_t{0}, 1}}) {
    EXPECT_FALSE(Pool::from_position(3, position));
  }
}

TEST(PoolPosition, OfACheckpointIsThatOfThePool) {
  const DispenserPosition position = position_in_pool(position_of_pool({})).value();
  EXPECT_EQ(position, DispenserPosition());
  EXPECT_EQ(position_in_pool({}).value(), DispenserPosition());
  DispenserPosition stands;
  stands.next = 7;
  stands.returned = {2, 5};
  EXPECT_EQ(position_in_pool(position_of_pool(stands)).value(), stands);
  auto pool = Pool::from_position(9, position_of_pool(stands)).value();
  EXPECT_EQ(pool.take(1), 2u);
  EXPECT_EQ(pool.take(1), 5u);
  EXPECT_EQ(pool.take(1), 7u);
  pool.give_back(1, 1, true);
  stands.next = 8;
  stands.returned = {5, 7};
  EXPECT_EQ(position_in_pool(pool.position()).value(), stands) << "without how often they were lost";
  const std::vector<std::vector<std::uint64_t>> wrong{{1}, {3, 2, 0}};
  for (const auto& numbers : wrong) EXPECT_FALSE(position_in_pool(numbers).ok());
}

TEST(PoolPosition, CountsWhatMembersWereHandedOnce) {
  DispenserPosition before;
  before.next = 6;
  before.returned = {1, 3};
  before.steps = {4, 0};
  // Batches 0 and 4 were in hand before, 3 came back and is used, 8 went to a member that is lost, 6 is in no hand.
  const std::vector<std::vector<std::uint64_t>> logs{{0, 3, 9}, {4, 7}};
  const DispenserPosition after = position_after_all(before, logs);
  EXPECT_EQ(after.next, 10u);
  EXPECT_EQ(after.returned, (std::vector<std::uint64_t>{1, 6, 8}));
  EXPECT_EQ(after.steps, before.steps);
  EXPECT_EQ(position_after_all(before, {}), before);
  const std::vector<std::uint64_t> in_hand{2, 3, 8, 11};
  const DispenserPosition with_hands = position_after_all(before, logs, in_hand);
  EXPECT_EQ(with_hands.next, 10u);
  EXPECT_EQ(with_hands.returned, (std::vector<std::uint64_t>{1, 2, 6, 8}));
}

/// A pool that hands out what a checkpoint has left, against one that stands where the checkpoint was.
TEST(PoolPosition, OfTheRestIsThatOfAll) {
  constexpr std::uint64_t kAll = 20;
  DispenserPosition start;
  start.next = 9;
  start.returned = {1, 4, 7};
  start.steps = {5, 1};
  EXPECT_EQ(position_from(start, DispenserPosition()), start);
  Pool of_all = Pool::from_position(kAll, position_of_pool(start)).value(), of_rest(kAll - 6);
  const auto agree = [&] {
    DispenserPosition expected = position_in_pool(of_all.position()).value();
    expected.steps = start.steps;
    EXPECT_EQ(position_from(start, position_in_pool(of_rest.position()).value()), expected);
  };
  for (std::uint64_t taken = 1; of_all.take(taken / 2).has_value(); ++taken) {
    EXPECT_TRUE(of_rest.take(taken / 2));
    agree();
    if (taken == 3 || taken == 9) {  // batches that had come back before among those that do now, and none of them
      for (Pool* const pool : {&of_all, &of_rest}) pool->give_back(taken / 2, 0, true);
      agree();
    }
  }
  EXPECT_FALSE(of_rest.take(1));
}

}  // namespace
}  // namespace stretto
