#include "stretto/collective/lines/line_round.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/base/error.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using Due = LineRound::Due;

constexpr TimePoint at(Duration time) {
  return {time};
}

TEST(Needed, IsOneAtLeastAndRoundedUp) {
  EXPECT_EQ(needed(0.01, 4), 1);
  EXPECT_EQ(needed(0.5, 5), 3);
  EXPECT_EQ(needed(0.55, 20), 11) << "which is a little more in binary";
  EXPECT_EQ(needed(1, 33), 33);
}

TEST(LineRound, WaitsForAllWithThresholdsOfOne) {
  LineRound round(0, 3, {}, 0ns, 0ns, true, at(0ns));
  EXPECT_TRUE(round.contributed(1, true, at(1ns)));
  EXPECT_EQ(round.due(at(1s)), Due::nothing);
  EXPECT_EQ(round.due_by(), TimePoint::never());
  EXPECT_TRUE(round.contributed(2, false, at(2ns)));
  EXPECT_EQ(round.due(at(2ns)), Due::reduce);
  EXPECT_THAT(round.contributors().members(), ElementsAre(0, 1)) << "2 has come, and brings nothing";
  round.reduced(at(2ns));
  round.averaged(1, at(3ns));
  EXPECT_EQ(round.due(at(1s)), Due::nothing);
  round.averaged(2, at(4ns));
  EXPECT_EQ(round.due(at(4ns)), Due::complete);
}

TEST(LineRound, GoesOnWithItsShareOncePatienceHasPassed) {
  const LineOptions options{.reduce = 0.5, .complete = 0.75};
  LineRound round(2, 4, options, 10ns, 20ns, true, at(100ns));
  EXPECT_EQ(round.due(at(1s)), Due::nothing) << "one of two";
  EXPECT_TRUE(round.contributed(0, true, at(105ns)));
  EXPECT_EQ(round.due(at(109ns)), Due::nothing);
  EXPECT_EQ(round.due_by(), at(110ns));
  EXPECT_EQ(round.due(at(110ns)), Due::reduce);
  round.reduced(at(112ns));
  EXPECT_FALSE(round.contributed(3, true, at(113ns))) << "late";
  EXPECT_THAT(round.contributors().members(), ElementsAre(0, 2));
  round.averaged(3, at(114ns));
  EXPECT_EQ(round.due_by(), TimePoint::never()) << "two of three";
  round.averaged(0, at(115ns));
  EXPECT_EQ(round.due_by(), at(132ns));
  EXPECT_EQ(round.due(at(132ns)), Due::complete);
  round.completed();
  round.averaged(1, at(140ns));
  EXPECT_TRUE(round.means().all()) << "means count until the application takes the round";
  EXPECT_THAT(round.contributions_came(), ElementsAre(at(100ns), at(105ns), at(113ns)));
}

TEST(LineRound, ThatIsForcedSendsNoMeanOfTooFew) {
  const LineOptions options{.reduce = 0.5};
  LineRound alone(0, 4, options, 1s, 1s, true, at(0ns));
  EXPECT_EQ(alone.due_at_force(), Due::complete);
  LineRound pair(0, 4, options, 1s, 1s, true, at(0ns));
  EXPECT_TRUE(pair.contributed(1, true, at(1ns)));
  EXPECT_EQ(pair.due_at_force(), Due::reduce) << "which patience alone held back";
  pair.reduced(at(2ns));
  EXPECT_EQ(pair.due_at_force(), Due::complete);
  alone.completed();
  EXPECT_FALSE(alone.contributed(1, true, at(3ns)));
  EXPECT_EQ(alone.due(at(1h)), Due::nothing);
}

TEST(LineOptions, AreRefusedWhereTheyCannotBe) {
  EXPECT_THROW(LineOptions{.reduce = 0}.require(), UsageError);
  EXPECT_THROW(LineOptions{.advance = 1.1}.require(), UsageError);
  EXPECT_THROW(LineOptions{.rounds_in_flight = 0}.require(), UsageError);
  EXPECT_THROW(LineOptions{.rounds_in_flight = 2}.require(), UsageError);
  EXPECT_THROW(LineOptions{.missing = Missing::previous}.require(), UsageError);
  EXPECT_NO_THROW((LineOptions{.missing = Missing::previous, .update = ElasticUpdate::paper}.require()));
  EXPECT_NO_THROW((LineOptions{.update = ElasticUpdate::paper, .rounds_in_flight = 2}.require()));
}

}  // namespace
}  // namespace stretto
