#include "stretto/collective/lines/line_agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/base/words.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr TimePoint kBegin;

/// "force 3", "open 4 with 2", "start 4", "complete 4 to 0".
std::vector<std::string> actions_of(LineAgent& agent) {
  std::vector<std::string> out;
  for (const LineAgent::Action& action : agent.take_actions()) {
    switch (action.kind) {
      case LineAgent::Action::Kind::force: out.push_back(text("force ", action.round)); break;
      case LineAgent::Action::Kind::drop: out.push_back(text("drop ", action.round)); break;
      case LineAgent::Action::Kind::open: out.push_back(text("open ", action.round, " with ", action.version)); break;
      case LineAgent::Action::Kind::start: out.push_back(text("start ", action.round)); break;
      case LineAgent::Action::Kind::complete: out.push_back(text("complete ", action.round, " to ", action.to)); break;
    }
  }
  return out;
}

TEST(LineAgent, TheFirstOfALineStartsItsRounds) {
  LineAgent master(0, 3, {});
  master.applied(1);
  master.look(kBegin);
  EXPECT_THAT(actions_of(master), ElementsAre("start 0", "open 0 with 1"));
  master.completed(0);
  EXPECT_THAT(master.take(), ElementsAre(0));
  master.applied(2);
  master.peer_applied(1, 1, kBegin);
  master.look(kBegin);
  EXPECT_THAT(actions_of(master), IsEmpty()) << "node 2 has not applied it";
  master.peer_applied(1, 1, kBegin);
  master.look(kBegin);
  EXPECT_THAT(actions_of(master), IsEmpty()) << "node 1 says it again";
  master.peer_applied(2, 1, kBegin);
  master.look(kBegin);
  EXPECT_THAT(actions_of(master), ElementsAre("start 1", "open 1 with 2"));
}

TEST(LineAgent, OpensARoundByDataOrByStartOnce) {
  LineAgent agent(1, 3, {});
  agent.applied(1);
  agent.look(kBegin);
  EXPECT_THAT(actions_of(agent), IsEmpty()) << "it is no line master";
  EXPECT_EQ(agent.admit(0), Round{0});
  EXPECT_THAT(actions_of(agent), ElementsAre("open 0 with 1"));
  agent.started(0);
  EXPECT_THAT(actions_of(agent), IsEmpty());
  EXPECT_EQ(agent.admit(0), Round{0}) << "of another node";
  agent.completed(0);
  EXPECT_EQ(agent.admit(0), Round{0}) << "a mean counts until the round is taken";
  EXPECT_THAT(agent.take(), ElementsAre(0));
  agent.applied(2);
  EXPECT_THAT(actions_of(agent), ElementsAre("complete 1 to 0"));
  EXPECT_EQ(agent.admit(0), std::nullopt);
  EXPECT_EQ(agent.admit(4), Round{4}) << "those between are skipped";
  EXPECT_EQ(agent.admit(3), std::nullopt);
  EXPECT_THAT(actions_of(agent), ElementsAre("open 4 with 2"));
}

TEST(LineAgent, ForcesARoundToAnEndWhereANewerOneOpens) {
  LineAgent agent(1, 2, {});
  agent.applied(1);
  agent.started(0);
  agent.started(1);
  EXPECT_THAT(actions_of(agent), ElementsAre("open 0 with 1", "force 0", "open 1 with 0"))
      << "nothing is contributed while a contribution is not applied";
  EXPECT_EQ(agent.in_flight(), 1);
  EXPECT_THAT(agent.take(), IsEmpty()) << "round 0 has not been ended yet";
  agent.completed(0);
  EXPECT_THAT(agent.take(), ElementsAre(0));
  agent.applied(1);
  EXPECT_THAT(actions_of(agent), ElementsAre("complete 1 to 0"));
  agent.started(2);
  EXPECT_THAT(actions_of(agent), ElementsAre("force 1", "open 2 with 0")) << "version 1 has been contributed";
  agent.completed(1);
  EXPECT_THAT(agent.take(), ElementsAre(1));
  agent.applied(2);
  agent.started(3);
  EXPECT_THAT(actions_of(agent), ElementsAre("complete 2 to 0", "force 2", "open 3 with 2"));
}

TEST(LineAgent, HasSeveralRoundsInFlightAsInThePaper) {
  LineAgent agent(1, 2, {.update = ElasticUpdate::paper, .rounds_in_flight = 2});
  agent.applied(7);
  agent.started(0);
  agent.started(1);
  EXPECT_THAT(actions_of(agent), ElementsAre("open 0 with 7", "open 1 with 7"));
  agent.completed(1);
  EXPECT_THAT(agent.take(), IsEmpty()) << "round 0 comes first";
  agent.started(2);
  EXPECT_THAT(actions_of(agent), ElementsAre("force 0", "open 2 with 7"));
  agent.completed(0);
  EXPECT_THAT(agent.take(), ElementsAre(0, 1));
  agent.applied(8);
  EXPECT_THAT(actions_of(agent), ElementsAre("complete 2 to 0"));
}

TEST(LineAgent, DropsTheOldestWhereTheApplicationTakesNone) {
  LineAgent paper(1, 2, {.update = ElasticUpdate::paper, .rounds_in_flight = 2});
  paper.applied(7);
  LineAgent carry(1, 2, {});
  carry.applied(7);
  for (Round round = 0; round < 4; ++round) {
    for (LineAgent* agent : {&paper, &carry}) {
      agent->started(round);
      agent->completed(round);
    }
  }
  EXPECT_THAT(actions_of(paper),
              ElementsAre("open 0 with 7", "open 1 with 7", "open 2 with 7", "open 3 with 7", "drop 0"));
  EXPECT_THAT(paper.take(), ElementsAre(1, 2, 3));
  EXPECT_THAT(actions_of(carry),
              ElementsAre("open 0 with 7", "open 1 with 0", "open 2 with 0", "open 3 with 0", "drop 1"));
  EXPECT_TRUE(carry.owes());
  EXPECT_THAT(carry.take(), ElementsAre(0, 2, 3)) << "the others have moved by its model in round 0";
  carry.applied(8);
  EXPECT_FALSE(carry.owes());
  EXPECT_THAT(actions_of(carry), ElementsAre("complete 4 to 0"));
}

TEST(LineAgent, BringsNothingBeforeItHasAModel) {
  LineAgent agent(1, 2, {});
  agent.started(0);
  EXPECT_THAT(actions_of(agent), ElementsAre("open 0 with 0"));
}

TEST(LineAgent, TellsEachLineMasterWhatItHasApplied) {
  LineAgent agent(2, 3, {});
  agent.suspect(0, true);
  EXPECT_THAT(actions_of(agent), IsEmpty()) << "nothing has been applied";
  agent.suspect(0, false);
  agent.started(0);
  agent.completed(0);
  EXPECT_THAT(agent.take(), ElementsAre(0));
  agent.applied(0);
  EXPECT_THAT(actions_of(agent), ElementsAre("open 0 with 0", "complete 1 to 0"));
  agent.suspect(1, true);
  EXPECT_THAT(actions_of(agent), IsEmpty());
  agent.suspect(1, false);
  agent.suspect(0, true);
  EXPECT_THAT(actions_of(agent), ElementsAre("complete 1 to 0", "complete 1 to 1"))
      << "the first may live on, and wait for that";
  agent.suspect(1, true);
  agent.reached(0);
  EXPECT_EQ(agent.line_master(), 2);
  EXPECT_THAT(actions_of(agent), ElementsAre("complete 1 to 0", "complete 1 to 1", "complete 1 to 0"));
  agent.suspect(0, false);
  agent.reached(0);
  EXPECT_THAT(actions_of(agent), ElementsAre("complete 1 to 0"));
}

TEST(LineAgent, ASecondLineMasterGoesOnWhereTheFirstStopped) {
  LineAgent second(1, 3, {.advance = 0.6});
  second.started(0);
  second.completed(0);
  EXPECT_THAT(second.take(), ElementsAre(0));
  second.applied(1);
  second.suspect(0, true);
  second.look(kBegin);
  EXPECT_THAT(actions_of(second), ElementsAre("open 0 with 0", "complete 1 to 0", "complete 1 to 0"));
  second.peer_applied(2, 1, kBegin);
  second.look(kBegin);
  EXPECT_THAT(actions_of(second), ElementsAre("start 1", "open 1 with 1"));
}

TEST(LineAgent, StartsWithItsShareOncePatienceHasPassed) {
  LineAgent master(0, 3, {.advance = 0.6, .patience = 10ns});
  master.look(kBegin);
  master.completed(0);
  EXPECT_THAT(master.take(), ElementsAre(0));
  master.applied(1);
  master.peer_applied(2, 1, kBegin);
  master.look(kBegin);
  EXPECT_EQ(master.look_by(), kBegin + 10ns);
  EXPECT_THAT(actions_of(master), ElementsAre("start 0", "open 0 with 0"));
  master.look(kBegin + 10ns);
  EXPECT_THAT(actions_of(master), ElementsAre("start 1", "open 1 with 1"));
}

TEST(LineAgent, LearnsPatienceFromWhatCame) {
  LineAgent agent(0, 2, {.adaptive = true});
  EXPECT_EQ(agent.patience_for_contributions(), 0ns);
  agent.learn({kBegin, kBegin + 100s, kBegin + 120s}, {kBegin, kBegin + 50s});
  EXPECT_EQ(agent.patience_for_contributions(), 100s + 3 * 20s);
  EXPECT_EQ(agent.patience_for_means(), 50s + 3 * 50s);
}

}  // namespace
}  // namespace stretto
