#include "stretto/membership/hosts/liveness_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "stretto/base/error.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;
using Action = LivenessRule::Action;
using Fact = LivenessFact;

TimePoint at(Duration since) {
  return {since};
}

/// What the rule does up to now, but for beats.
std::vector<std::string> done(LivenessRule& rule, TimePoint now) {
  std::vector<std::string> out;
  while (const auto action = rule.next(now)) {
    const Fact& fact = action->fact;
    switch (action->kind) {
      case Action::Kind::beat: break;
      case Action::Kind::tell:
        out.push_back(text("tell ", action->host, ": ", static_cast<int>(fact.kind), ' ', fact.a, ' ', fact.b));
        break;
      case Action::Kind::ended: out.push_back(text("ended ", fact.a)); break;
      case Action::Kind::silent: out.push_back(text("silent ", action->host)); break;
      case Action::Kind::cut: out.push_back(text("cut ", fact.a, ' ', fact.b, ": ", action->host)); break;
    }
  }
  return out;
}

TEST(LivenessRule, EachHostHasEdgesToThoseAPowerOfTwoAway) {
  EXPECT_THAT(LivenessRule::neighbours(1, 0), IsEmpty());
  EXPECT_THAT(LivenessRule::neighbours(2, 1), ElementsAre(0));
  EXPECT_THAT(LivenessRule::neighbours(8, 0), ElementsAre(1, 2, 4, 6, 7));
  for (int hosts = 1; hosts < 40; ++hosts) {
    for (int host = 0; host < hosts; ++host) {
      for (const int other : LivenessRule::neighbours(hosts, host)) {
        EXPECT_THAT(LivenessRule::neighbours(hosts, other), testing::Contains(host)) << hosts;
      }
    }
  }
}

TEST(LivenessRule, BeatsTenTimesWithinTheLimit) {
  LivenessRule rule(Members(std::vector<int>{0, 1}), 0, 10s, at(0s));
  int beats = 0;
  for (Duration now = 0s; now < 5s; now += 50ms) {
    while (const auto action = rule.next(at(now))) beats += action->kind == Action::Kind::beat ? 1 : 0;
  }
  EXPECT_EQ(beats, 5);
}

TEST(LivenessRule, AHostThatIsHeardOrAcknowledgesIsNotLost) {
  LivenessRule rule(Members(std::vector<int>{0, 1}), 0, 10s, at(0s));
  for (Duration now = 0s; now < 100s; now += 9s) {
    EXPECT_THAT(done(rule, at(now)), IsEmpty());
    rule.heard(1, at(now));
  }
}

TEST(LivenessRule, AHostOfWhichNothingComesIsLostAfterTheVerdict) {
  LivenessRule rule(Members(std::vector<int>{0, 1}), 0, 10s, at(0s));
  rule.heard(1, at(2s));
  EXPECT_THAT(done(rule, at(11999ms)), IsEmpty());
  EXPECT_THAT(done(rule, at(12s)), ElementsAre("tell 1: 2 0 1"));
  EXPECT_THAT(done(rule, at(12499ms)), IsEmpty());
  EXPECT_THAT(done(rule, at(12500ms)), ElementsAre("silent 1"));
  EXPECT_THAT(done(rule, at(50s)), IsEmpty());
}

TEST(LivenessRule, AHostThatAnotherOneHearsIsNotLostButItsLinkIsCut) {
  LivenessRule rule(Members(std::vector<int>{0, 1, 2}), 0, 10s, at(0s));
  rule.heard(1, at(9s));
  rule.heard(2, at(9s));
  rule.learn({Fact::Kind::unheard, 1, 2}, 1, at(10s));
  EXPECT_THAT(done(rule, at(10s)), ElementsAre("cut 1 2: 2", "tell 1: 3 1 2", "tell 2: 2 1 2", "tell 2: 3 1 2"));
  rule.heard(1, at(11s));
  rule.heard(2, at(11s));
  EXPECT_THAT(done(rule, at(11s)), IsEmpty());
}

TEST(LivenessRule, AHostThatIsSilentHereTooIsNoCutLink) {
  LivenessRule rule(Members(std::vector<int>{0, 1, 2}), 0, 10s, at(0s));
  rule.heard(1, at(9s));
  rule.heard(2, at(1s));
  rule.learn({Fact::Kind::unheard, 1, 2}, 1, at(10s));
  EXPECT_THAT(done(rule, at(10s)), ElementsAre("tell 2: 2 1 2"));
  EXPECT_THAT(done(rule, at(10500ms)), ElementsAre("silent 2"));
}

TEST(LivenessRule, NewsGoOnceOverEachEdgeAndNotBack) {
  LivenessRule rule(Members(std::vector<int>{0, 1, 2, 3}), 0, 10s, at(0s));
  rule.learn({Fact::Kind::ended, 3, 0, "why"}, 3, at(1s));
  EXPECT_THAT(done(rule, at(1s)), ElementsAre("ended 3", "tell 1: 1 3 0", "tell 2: 1 3 0"));
  rule.learn({Fact::Kind::ended, 3, 0, "why"}, 2, at(1s));
  EXPECT_THAT(done(rule, at(1s)), IsEmpty());
  rule.connected(1, at(2s));
  EXPECT_THAT(done(rule, at(2s)), ElementsAre("tell 1: 1 3 0"));
}

TEST(LivenessRule, ARankThatHasLeftIsNotLostNorIsAHostWhoseRanksAllHave) {
  LivenessRule rule(Members(std::vector<int>{0, 1, 1}), 0, 10s, at(0s));
  rule.learn({Fact::Kind::left, 1}, 1, at(1s));
  rule.learn({Fact::Kind::ended, 1}, 1, at(1s));
  rule.learn({Fact::Kind::left, 2}, 1, at(1s));
  EXPECT_THAT(done(rule, at(1s)), IsEmpty());
  EXPECT_FALSE(rule.lives(1));
  EXPECT_THAT(done(rule, at(100s)), IsEmpty());
}

}  // namespace
}  // namespace stretto
