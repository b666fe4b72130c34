#include "stretto/schedule/execution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/base/error.h"
#include "stretto/schedule/builder.h"
#include "stretto/schedule/testing/refusal.h"

namespace stretto {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Each rank sends to its right, in a circle; those from `late` on only when they have received from their left.
std::vector<Schedule> circle(int ranks, int late) {
  std::vector<Schedule> out;
  for (int rank = 0; rank < ranks; ++rank) {
    ScheduleBuilder b("circle", rank, ranks);
    const OpId got = b.recv((rank + ranks - 1) % ranks, 0, {}, {});
    const OpId sent = rank < late ? b.send((rank + 1) % ranks, 0, {}, {}) : b.send((rank + 1) % ranks, 0, {}, {got});
    const OpId both = b.nop({got, sent});
    b.label(both, "both");
    out.push_back(b.build(both));
  }
  return out;
}

TEST(Validate, NamesTheOperationsThatWaitForEachOtherAcrossRanks) {
  EXPECT_EQ(refusal(circle(3, 1)), "no error");
  EXPECT_EQ(refusal(circle(2, 0)),
            "schedule \"circle\" cannot finish on rank 0: rank 0's recv #0 (from rank 1, channel 0) waits for rank 1's "
            "send #1 (to rank 0, channel 0) waits for rank 1's recv #0 (from rank 0, channel 0) waits for rank 0's "
            "send #1 (to rank 1, channel 0) waits for rank 0's recv #0 (from rank 1, channel 0)");
}

TEST(Validate, NamesAFewOfAManyThatWait) {
  EXPECT_THAT(refusal(circle(1000, 0)), AllOf(HasSubstr("rank 0's recv #0"), HasSubstr("waits for rank 999's send #1"),
                                              HasSubstr(", and so on over 1989 more")));
}

/// Rank 1 waits for a trigger of its own, or for rank 0's word, which comes with rank 0's trigger.
std::vector<Schedule> two_triggers(bool tells) {
  ScheduleBuilder zero("triggers", 0, 2), one("triggers", 1, 2);
  const OpId mine = zero.nop({});
  const OpId told = one.recv(0, 0, {}, {});
  const OpId own = one.nop({});
  const OpId either = one.nop({told, own});
  zero.external(mine);
  one.external(own).need(either, Need::count(tells ? 1 : 2));
  zero.label(mine, "mine");
  one.label(own, "own");
  const OpId sent = zero.send(1, 0, {}, {mine});
  return {zero.build(sent), one.build(either)};
}

TEST(Execution, ATriggerThatNobodyGivesIsNamed) {
  EXPECT_EQ(refusal(two_triggers(false)), "no error") << "rank 1 may be triggered, too";
  const auto schedules = two_triggers(false);
  Execution(schedules, kEveryRank).require_completion();
  try {
    Execution(schedules, 0).require_completion();
    FAIL() << "nobody triggers rank 1";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(),
                 "schedule \"triggers\" cannot finish on rank 1: rank 1's nop #2 waits for rank 1's nop #1 \"own\", "
                 "which waits for a trigger that nobody gives");
  }
}

TEST(Execution, OneTriggerIsEnoughWhereRanksTellEachOther) {
  const auto schedules = two_triggers(true);
  const Execution execution(schedules, 0);
  execution.require_completion();
  EXPECT_FALSE(execution.fate(1, 1).fired);
  EXPECT_EQ(execution.fate(1, 2).required, std::vector<OpId>{0});
}

}  // namespace
}  // namespace stretto
