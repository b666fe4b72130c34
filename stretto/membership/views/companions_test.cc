#include "stretto/membership/views/companions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Companions, StayWhereTheirListDoes) {
  Companions one;
  EXPECT_FALSE(one.want({3, 5}, false)) << "it is in no world";
  EXPECT_THAT(one.awaited(), ElementsAre(3u, 5u));
  one.met();
  EXPECT_FALSE(one.want({3, 5}, false));
  EXPECT_THAT(one.awaited(), IsEmpty());
  EXPECT_THAT(one.here(), ElementsAre(3u, 5u));
  EXPECT_TRUE(one.want({5, 7}, false));
  EXPECT_THAT(one.here(), IsEmpty());
}

TEST(Companions, StayUntilOthersHaveComeBesideThem) {
  Companions one;
  (void)one.want({3, 5}, false);
  one.met();
  EXPECT_FALSE(one.want({5, 3, 7}, false));
  EXPECT_THAT(one.here(), ElementsAre(3u, 5u));
  EXPECT_THAT(one.awaited(), ElementsAre(5u, 3u, 7u));
  EXPECT_FALSE(one.want({3, 5}, false)) << "7 is lost on its way";
  EXPECT_THAT(one.awaited(), IsEmpty());
  EXPECT_FALSE(one.want({5, 3, 7}, false));
  one.met();
  EXPECT_THAT(one.here(), ElementsAre(5u, 3u, 7u));
}

TEST(Companions, AwaitTheNewestListAlone) {
  Companions one;
  EXPECT_FALSE(one.want({3, 5}, false));
  EXPECT_FALSE(one.want({3, 6}, false));
  EXPECT_THAT(one.awaited(), ElementsAre(3u, 6u));
  EXPECT_FALSE(one.want({}, false));
  EXPECT_THAT(one.awaited(), IsEmpty());
}

TEST(Companions, MeetTheSameAnewWhereTheirWorldIsBroken) {
  Companions one;
  (void)one.want({3, 5}, false);
  one.met();
  EXPECT_TRUE(one.want({3, 5}, true));
  EXPECT_THAT(one.awaited(), ElementsAre(3u, 5u));
  EXPECT_FALSE(one.want({3, 5}, true)) << "it has left it already";
  EXPECT_THAT(one.awaited(), ElementsAre(3u, 5u));
}

}  // namespace
}  // namespace stretto
