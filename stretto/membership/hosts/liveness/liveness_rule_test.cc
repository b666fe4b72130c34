#include "stretto/membership/hosts/liveness/liveness_rule.h"

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

/// What an action says, but for beats.
std::string words(const Action& action) {
  const Fact& fact = action.fact;
  switch (action.kind) {
    case Action::Kind::tell:
      return text("tell ", action.host, ": ", static_cast<int>(fact.kind), ' ', fact.a, ' ', fact.b);
    case Action::Kind::ended: return text("ended ", fact.a);
    case Action::Kind::silent: return text("silent ", action.host);
    case Action::Kind::cut: return text("cut ", fact.a, ' ', fact.b, ": ", action.host);
    case Action::Kind::beat: break;
  }
  return {};
}

/// A rule that is asked twenty times a second.
class AskedRule : public LivenessRule {
 public:
  explicit AskedRule(std::vector<int> host_of) : LivenessRule(Members(host_of), 0, 10s, at(0s)) {}

  /// What it does until `now`, but for beats.
  std::vector<std::string> until(Duration now) {
    std::vector<std::string> out;
    for (; asked_ < now; asked_ = std::min<Duration>(asked_ + 50ms, now)) ask(out);
    ask(out);
    return out;
  }
  int beats() const { return beats_; }

 private:
  void ask(std::vector<std::string>& out) {
    while (const auto action = next(at(asked_))) {
      if (action->kind == Action::Kind::beat) ++beats_;
      if (action->kind != Action::Kind::beat) out.push_back(words(*action));
    }
  }
  Duration asked_{0};
  int beats_ = 0;
};

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
  AskedRule rule({0, 1});
  rule.until(4950ms);
  EXPECT_EQ(rule.beats(), 5);
}

TEST(LivenessRule, AHostThatIsHeardOrAcknowledgesIsNotLost) {
  AskedRule rule({0, 1});
  for (Duration now = 0s; now < 100s; now += 9s) {
    EXPECT_THAT(rule.until(now), IsEmpty());
    rule.heard(1, at(now));
  }
}

TEST(LivenessRule, AHostIsLateThatIsSilentForThreeBeats) {
  AskedRule rule({0, 1});
  rule.until(2s);
  EXPECT_FALSE(rule.is_late(1, at(2s)));
  EXPECT_FALSE(rule.hears(1, at(2s))) << "it has just begun";
  EXPECT_TRUE(rule.is_late(1, at(3s)));
  rule.acknowledged(1, at(7s));
  EXPECT_FALSE(rule.is_late(1, at(8s)));
  EXPECT_TRUE(rule.hears(1, at(8s)));
}

TEST(LivenessRule, AHostOfWhichNothingComesIsLostAfterTheVerdict) {
  AskedRule rule({0, 1});
  rule.heard(1, at(2s));
  EXPECT_THAT(rule.until(11999ms), IsEmpty());
  EXPECT_THAT(rule.until(12s), ElementsAre("tell 1: 2 0 1"));
  EXPECT_THAT(rule.until(12499ms), IsEmpty());
  EXPECT_THAT(rule.until(12500ms), ElementsAre("silent 1"));
  EXPECT_THAT(rule.until(50s), IsEmpty());
}

TEST(LivenessRule, AHostThatAnotherOneHearsIsNotLostButItsLinkIsCut) {
  AskedRule rule({0, 1, 2});
  rule.heard(1, at(9s));
  rule.heard(2, at(9s));
  EXPECT_THAT(rule.until(10s), IsEmpty());
  rule.learn({Fact::Kind::unheard, 1, 2}, 1, at(10s));
  EXPECT_THAT(rule.until(10s), ElementsAre("cut 1 2: 2", "tell 1: 3 1 2", "tell 2: 2 1 2", "tell 2: 3 1 2"));
  rule.heard(1, at(11s));
  rule.heard(2, at(11s));
  EXPECT_THAT(rule.until(11s), IsEmpty());
}

TEST(LivenessRule, AHostThatIsSilentHereTooIsNoCutLink) {
  AskedRule rule({0, 1, 2});
  rule.heard(1, at(9s));
  rule.heard(2, at(1s));
  EXPECT_THAT(rule.until(10s), IsEmpty());
  rule.learn({Fact::Kind::unheard, 1, 2}, 1, at(10s));
  EXPECT_THAT(rule.until(10s), ElementsAre("tell 2: 2 1 2"));
  EXPECT_THAT(rule.until(10500ms), ElementsAre("silent 2"));
}

TEST(LivenessRule, AHostIsNotLostThatHasSaidThatItHearsNothing) {
  AskedRule rule({0, 1, 2});
  rule.until(8s);
  rule.heard(2, at(8s));
  EXPECT_THAT(rule.until(10s), ElementsAre("tell 1: 2 0 1", "tell 2: 2 0 1"));
  rule.learn({Fact::Kind::cut, 1, 0}, 2, at(10s));
  EXPECT_THAT(rule.until(12s), ElementsAre("cut 1 0: 1", "tell 1: 3 1 0"));
}

TEST(LivenessRule, AHostIsNotLostThatIsHeardBeforeTheVerdict) {
  AskedRule rule({0, 1, 2});
  rule.until(8s);
  rule.heard(1, at(8s));
  rule.heard(2, at(4s));
  rule.until(9s);
  rule.learn({Fact::Kind::unheard, 1, 2}, 1, at(9s));
  EXPECT_THAT(rule.until(9100ms), ElementsAre("tell 2: 2 1 2"));
  rule.heard(2, at(9200ms));
  EXPECT_THAT(rule.until(9500ms), ElementsAre("cut 1 2: 2", "tell 1: 3 1 2", "tell 2: 3 1 2"));
  EXPECT_THAT(rule.until(12s), IsEmpty());
}

TEST(LivenessRule, AHostThatIsToldThatItIsUnheardSaysThatTheLinkIsCut) {
  AskedRule rule({0, 1, 2});
  rule.until(8s);
  rule.heard(1, at(8s));
  rule.heard(2, at(8s));
  rule.learn({Fact::Kind::unheard, 1, 0}, 2, at(9s));
  EXPECT_THAT(rule.until(9s), ElementsAre("cut 1 0: 1", "tell 1: 2 1 0", "tell 1: 3 1 0", "tell 2: 3 1 0"));
}

TEST(LivenessRule, NewsGoOnceOverEachEdgeAndNotBack) {
  AskedRule rule({0, 1, 2, 3});
  rule.until(1s);
  rule.learn({Fact::Kind::ended, 3, 0, "why"}, 3, at(1s));
  EXPECT_THAT(rule.until(1s), ElementsAre("ended 3", "tell 1: 1 3 0", "tell 2: 1 3 0"));
  rule.learn({Fact::Kind::ended, 3, 0, "why"}, 2, at(1s));
  EXPECT_THAT(rule.until(1s), IsEmpty());
  rule.connected(1, at(2s));
  EXPECT_THAT(rule.until(2s), ElementsAre("tell 1: 1 3 0"));
}

TEST(LivenessRule, ARankThatHasLeftIsNotLostNorIsAHostWhoseRanksAllHave) {
  AskedRule rule({0, 1, 1});
  rule.learn({Fact::Kind::left, 1}, 1, at(1s));
  rule.learn({Fact::Kind::ended, 1}, 1, at(1s));
  rule.learn({Fact::Kind::left, 2}, 1, at(1s));
  EXPECT_THAT(rule.until(1s), IsEmpty());
  EXPECT_FALSE(rule.lives(1));
  EXPECT_THAT(rule.until(100s), IsEmpty());
}

TEST(LivenessRule, AHostThatHasItselfStoodStillBeginsAnew) {
  LivenessRule rule(Members(std::vector<int>{0, 1}), 0, 10s, at(0s));
  const auto next = rule.next(at(60s));
  ASSERT_TRUE(next);
  EXPECT_EQ(next->kind, Action::Kind::beat);
  EXPECT_FALSE(rule.next(at(60s)));
}

}  // namespace
}  // namespace stretto
