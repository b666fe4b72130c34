#include "stretto/papers/servers/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/base/error.h"

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// All that is to be done now, in words.
std::vector<std::string> actions(Shard& shard) {
  std::vector<std::string> all;
  while (const auto action = shard.next()) {
    std::string ranks;
    for (const int rank : action->ranks) ranks += text(' ', rank);
    switch (action->kind) {
      case ShardAction::Kind::apply: all.push_back(text("version ", action->version, " takes", ranks)); break;
      case ShardAction::Kind::drop: all.push_back(text("drops ", action->rank)); break;
      case ShardAction::Kind::answer:
        all.push_back(action->last ? text("ends phase ", action->clock, " for ", action->rank)
                                   : text("answers ", action->rank, " at ", action->clock));
        break;
      case ShardAction::Kind::commit:
        all.push_back(action->last ? text("last is ", action->version) : text("decides ", action->version, ":", ranks));
        break;
    }
  }
  return all;
}

TEST(Shard, SyncTakesAllGradientsInTheOrderOfRanks) {
  Shard shard({.mode = ServerMode::sync}, 3, true);
  shard.pushed(2, 0, 0);
  shard.asked(2, 1, 1);
  shard.pushed(0, 0, 0);
  EXPECT_THAT(actions(shard), IsEmpty());
  EXPECT_THAT(shard.waits_for(), ElementsAre(1));
  shard.pushed(1, 0, 0);
  EXPECT_THAT(actions(shard), ElementsAre("version 1 takes 0 1 2", "answers 2 at 1"));
}

TEST(Shard, DoneThatOvertakesThePushBeforeItWaitsForIt) {
  Shard shard({.mode = ServerMode::sync}, 2, true);
  shard.ended(1, 1);
  shard.pushed(0, 0, 0);
  EXPECT_THAT(actions(shard), IsEmpty());
  shard.pushed(1, 0, 0);
  EXPECT_THAT(actions(shard), ElementsAre("version 1 takes 0 1"));
  shard.pushed(0, 1, 1);
  EXPECT_THAT(actions(shard), ElementsAre("version 2 takes 0"));
  EXPECT_EQ(shard.phases(), 0u);
  shard.ended(0, 2);
  EXPECT_THAT(actions(shard), ElementsAre("ends phase 0 for 0", "ends phase 0 for 1"));
  EXPECT_EQ(shard.phases(), 1u);
}

TEST(Shard, APhaseGoesOnWhereTheOneBeforeHasEnded) {
  for (const ServerMode mode : {ServerMode::sync, ServerMode::async, ServerMode::ssp}) {
    Shard shard({.mode = mode, .staleness = 0}, 2, true);
    shard.pushed(0, 0, 0);
    shard.ended(0, 1);
    EXPECT_FALSE(shard.idle());
    shard.ended(1, 0);
    EXPECT_THAT(actions(shard), ElementsAre("version 1 takes 0", "ends phase 0 for 0", "ends phase 0 for 1"));
    EXPECT_TRUE(shard.idle());
    EXPECT_FALSE(shard.has_ended(0));
    shard.pushed(1, 0, 1);
    shard.asked(1, 1, 2);
    shard.ended(0, 1);
    EXPECT_THAT(actions(shard), ElementsAre("version 2 takes 1", "answers 1 at 1"));
    shard.ended(1, 1);
    EXPECT_THAT(actions(shard), ElementsAre("ends phase 1 for 0", "ends phase 1 for 1"));
  }
}

TEST(Shard, SspCountsStepsFromTheBeginningOfThePhase) {
  Shard shard({.mode = ServerMode::ssp, .staleness = 0}, 2, true);
  shard.pushed(0, 0, 0);
  shard.ended(0, 1);
  shard.ended(1, 0);
  (void)actions(shard);
  shard.pushed(0, 1, 1);
  shard.asked(0, 2, 2);
  EXPECT_THAT(actions(shard), ElementsAre("version 2 takes 0")) << "rank 1 has not made its first step of the phase";
  shard.pushed(1, 0, 1);
  EXPECT_THAT(actions(shard), ElementsAre("version 3 takes 1", "answers 0 at 2"));
}

TEST(Shard, AsyncTakesEachGradientAtOnce) {
  Shard shard({.mode = ServerMode::async}, 2, true);
  shard.asked(1, 1, 1);
  EXPECT_THAT(actions(shard), IsEmpty()) << "without its own gradient";
  shard.pushed(1, 0, 0);
  EXPECT_THAT(actions(shard), ElementsAre("version 1 takes 1", "answers 1 at 1"));
}

TEST(Shard, SspLetsARankBeSoManyStepsAheadAndNoMore) {
  Shard shard({.mode = ServerMode::ssp, .staleness = 1}, 2, true);
  shard.pushed(0, 0, 0);
  shard.asked(0, 1, 1);
  EXPECT_THAT(actions(shard), ElementsAre("version 1 takes 0", "answers 0 at 1"));
  shard.pushed(0, 1, 1);
  shard.asked(0, 2, 2);
  EXPECT_THAT(actions(shard), ElementsAre("version 2 takes 0"));
  EXPECT_THAT(shard.waits_for(), ElementsAre(1));
  shard.pushed(1, 0, 0);
  EXPECT_THAT(actions(shard), ElementsAre("version 3 takes 1", "answers 0 at 2"));
}

TEST(Shard, SspWithoutStalenessAnswersNobodyWithAStepOfTheFuture) {
  Shard shard({.mode = ServerMode::ssp, .staleness = 0}, 2, true);
  for (const int rank : {0, 1}) shard.pushed(rank, 0, 0);
  shard.asked(0, 1, 1);
  EXPECT_THAT(actions(shard), ElementsAre("version 1 takes 0", "version 2 takes 1", "answers 0 at 1"));
  shard.pushed(0, 1, 2);
  EXPECT_THAT(actions(shard), IsEmpty()) << "rank 1 has not been answered at clock 1";
  shard.asked(1, 1, 1);
  EXPECT_THAT(actions(shard), ElementsAre("answers 1 at 1", "version 3 takes 0"));
}

TEST(Shard, KSyncTakesTheFirstKAndDropsTheRest) {
  Shard shard({.mode = ServerMode::k_sync, .enough = 2}, 3, true);
  shard.pushed(2, 0, 0);
  EXPECT_THAT(actions(shard), IsEmpty());
  shard.pushed(0, 0, 0);
  EXPECT_THAT(actions(shard), ElementsAre("decides 0: 0 2", "version 1 takes 0 2"));
  shard.pushed(1, 0, 0);
  EXPECT_THAT(actions(shard), ElementsAre("drops 1"));
}

TEST(Shard, KSinksToTheRanksThatCanStillPush) {
  Shard shard({.mode = ServerMode::k_sync, .enough = 2}, 2, true);
  shard.pushed(0, 0, 0);
  EXPECT_THAT(actions(shard), IsEmpty());
  shard.ended(1, 0);
  EXPECT_THAT(actions(shard), ElementsAre("decides 0: 0", "version 1 takes 0"));
  shard.ended(0, 1);
  EXPECT_THAT(actions(shard), ElementsAre("last is 1", "ends phase 0 for 0", "ends phase 0 for 1"));
}

TEST(Shard, OtherShardsOfKSyncFollowTheOneThatDecides) {
  Shard shard({.mode = ServerMode::k_sync, .enough = 2}, 3, false);
  for (const int rank : {0, 1}) shard.pushed(rank, 0, 0);
  EXPECT_THAT(actions(shard), IsEmpty());
  shard.committed(0, {0, 2}, false);
  EXPECT_THAT(actions(shard), IsEmpty()) << "the gradient of rank 2 has not come";
  shard.pushed(2, 0, 0);
  EXPECT_THAT(actions(shard), ElementsAre("version 1 takes 0 2", "drops 1"));
}

}  // namespace
}  // namespace stretto
