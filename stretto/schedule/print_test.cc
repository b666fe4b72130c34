#include "stretto/schedule/print.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/base/error.h"
#include "stretto/schedule/builder.h"

namespace stretto {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Either rank may start: it tells the other, and both exchange and add a bucket. Rank 1 does so after a pause.
std::vector<Schedule> solo_pair() {
  std::vector<Schedule> out;
  for (int rank = 0; rank < 2; ++rank) {
    ScheduleBuilder b("solo \"pair\"", rank, 2);
    const auto x = b.buffer("x", DataType::float32, 16);
    const auto y = b.scratch("y", DataType::float32, 16);
    const OpId internal = b.nop({});
    const OpId told = b.recv(1 - rank, 0, {}, {});
    const OpId activated = b.nop({internal, told});
    b.external(internal).need(activated, Need::any());
    b.label(internal, "internal").label(activated, "activated");
    b.send(1 - rank, 0, {}, {activated});
    const OpId pause = b.delay(Duration(rank * 5000), {activated});
    const OpId sent = b.send(1 - rank, 1, b.whole(x), {pause});
    const OpId got = b.recv(1 - rank, 1, b.whole(y), {});
    const OpId sum = b.reduce({x, 0, 8}, {y, 8, 8}, {x, 0, 8}, ReduceOp::sum, {sent, got});
    b.label(sum, "sum");
    out.push_back(b.build(sum));
  }
  return out;
}

TEST(ToText, SaysWhatEachOperationDoesAndWaitsFor) {
  EXPECT_EQ(to_text(solo_pair()[1]),
            "schedule \"solo \"pair\"\" of rank 1 of 2: 8 operations, complete with sum\n"
            "  given   x: 16 float32\n"
            "  scratch y: 16 float32\n"
            "    #0 internal: nop, after a trigger\n"
            "    #1 recv nothing from 0 on 0, at once\n"
            "    #2 activated: nop, after any of internal, #1\n"
            "    #3 send nothing to 0 on 0, after activated\n"
            "    #4 delay 5 us, after activated\n"
            "    #5 send x to 0 on 1, after #4\n"
            "    #6 recv y from 0 on 1, at once\n"
            "    #7 sum: x[0..8) = sum(y[8..16), x[0..8)), after #5, #6\n");
}

TEST(ToText, SaysHowManyOfHowMany) {
  ScheduleBuilder b("some", 0, 1);
  const OpId a = b.call(4, {}), c = b.nop({}), d = b.nop({a, c});
  b.external(d).need(d, Need::count(2));
  const auto x = b.buffer("x", DataType::int64, 4);
  const OpId move = b.copy({x, 0, 2}, {x, 2, 2}, {d});
  b.with_header(move);
  const std::string out = to_text(b.build(move));
  EXPECT_THAT(out, HasSubstr("#2 nop, after 2 of 3 of a trigger, #0, #1\n"));
  EXPECT_THAT(out, HasSubstr("#0 call hook 4, at once\n"));
  EXPECT_THAT(out, HasSubstr("#3 x[0..2) = x[2..4) with header, after #2\n"));
}

TEST(ToDot, DrawsOneRankOrAllWithTheirMessages) {
  const auto schedules = solo_pair();
  const std::string all = to_dot(schedules);
  EXPECT_THAT(all, HasSubstr("digraph \"solo \\\"pair\\\"\" {"));
  EXPECT_THAT(all, HasSubstr("subgraph cluster_0 {"));
  EXPECT_THAT(all, HasSubstr("subgraph cluster_1 {"));
  EXPECT_THAT(all, HasSubstr("r1_2 [label=\"activated: nop\", fillcolor=white, style=\"filled,dashed\"];"));
  EXPECT_THAT(all, HasSubstr("r1_0 [label=\"internal: nop\", fillcolor=white, style=filled, peripheries=2];"));
  EXPECT_THAT(all, HasSubstr("r0_3 [label=\"send nothing to 1 on 0\", fillcolor=lightblue, style=filled];"));
  EXPECT_THAT(all, HasSubstr("r0_2 -> r0_3;"));
  EXPECT_THAT(all, HasSubstr("r0_3 -> r1_1 [style=dashed"));
  EXPECT_THAT(all, HasSubstr("r1_5 -> r0_6 [style=dashed"));

  const std::string one = to_dot({&schedules[1], 1});
  EXPECT_THAT(one, HasSubstr("cluster_1"));
  EXPECT_THAT(one, Not(HasSubstr("r0_")));
}

TEST(ToGoal, ResolvesTheActivationForTheInitiator) {
  EXPECT_EQ(to_goal(solo_pair(), 0),
            "num_ranks 2\n"
            "\nrank 0 {\n"
            "l0: calc 0\n"
            "l1: recv 1b from 1 tag 2\n"
            "l2: calc 0\n"
            "l3: send 1b to 1 tag 0\n"
            "l4: calc 0\n"
            "l5: send 64b to 1 tag 1\n"
            "l6: recv 64b from 1 tag 3\n"
            "l7: calc 4\n"
            "l2 requires l0\n"
            "l3 requires l2\n"
            "l4 requires l2\n"
            "l5 requires l4\n"
            "l7 requires l5\n"
            "l7 requires l6\n"
            "}\n"
            "\nrank 1 {\n"
            "l1: recv 1b from 0 tag 0\n"
            "l2: calc 0\n"
            "l3: send 1b to 0 tag 2\n"
            "l4: calc 5000\n"
            "l5: send 64b to 0 tag 3\n"
            "l6: recv 64b from 0 tag 1\n"
            "l7: calc 4\n"
            "l2 requires l1\n"
            "l3 requires l2\n"
            "l4 requires l2\n"
            "l5 requires l4\n"
            "l7 requires l6\n"
            "l7 requires l5\n"
            "}\n");
}

TEST(ToGoal, KeepsTheRecvOfAMessageThatNobodyWaitsFor) {
  ScheduleBuilder zero("late", 0, 3), one("late", 1, 3), two("late", 2, 3);
  const OpId sent = zero.send(1, 0, {}, {});
  const OpId never = one.nop({});
  one.external(never);
  const OpId got = one.recv(0, 0, {}, {never});
  one.send(2, 0, {}, {got});
  const OpId done = one.nop({});
  two.recv(1, 0, {}, {});
  const OpId idle = two.nop({});
  const std::vector<Schedule> schedules{zero.build(sent), one.build(done), two.build(idle)};
  EXPECT_EQ(to_goal(schedules, 0),
            "num_ranks 3\n\nrank 0 {\nl0: send 1b to 1 tag 0\n}\n"
            "\nrank 1 {\nl1: recv 1b from 0 tag 0\nl3: calc 0\n}\n"
            "\nrank 2 {\nl1: calc 0\n}\n")
      << "a recv without its message would hang a replay; a message without its recv would be lost";
}

TEST(ToGoal, AThresholdRequiresThoseThatFinishFirst) {
  ScheduleBuilder b("threshold", 0, 1);
  const OpId slow = b.delay(Duration(9000), {});
  const OpId quick = b.nop({});
  const OpId second = b.nop({quick});
  const OpId two = b.nop({slow, quick, second});
  b.need(two, Need::count(2));
  const std::string out = to_goal(std::vector<Schedule>{b.build(two)}, 0);
  EXPECT_THAT(out, HasSubstr("l3 requires l1\nl3 requires l2\n}"));
  EXPECT_THAT(out, HasSubstr("l0: calc 9000\n"));
}

TEST(ToGoal, RefusesAnInitiatorOutsideTheJob) {
  EXPECT_THROW(to_goal(solo_pair(), 2), UsageError);
  EXPECT_THROW(to_goal(solo_pair(), -1), UsageError);
}

}  // namespace
}  // namespace stretto
