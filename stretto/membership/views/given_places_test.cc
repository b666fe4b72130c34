#include "stretto/membership/views/given_places.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

TEST(GivenPlaces, ANumberIsGivenOnceAndAPlaceAgain) {
  GivenPlaces given(4, 2);
  EXPECT_EQ(given.give({})->place, 2);
  given.ended(1);
  const auto in_its_place = given.give(1);
  EXPECT_EQ(in_its_place->number, 3u);
  EXPECT_EQ(in_its_place->place, 1);
}

TEST(GivenPlaces, AWishForATakenPlaceGetsTheLowestThatIsFree) {
  GivenPlaces given(4, 3);
  given.ended(0);
  given.ended(2);
  EXPECT_EQ(given.give(1)->place, 0);
  EXPECT_EQ(given.give(7)->place, 2);
  EXPECT_EQ(given.give(-1)->place, 3);
}

TEST(GivenPlaces, ThereIsNoneWhereAllAreTaken) {
  GivenPlaces given(2, 2);
  EXPECT_FALSE(given.give({}));
  given.ended(17);  // which has none
  EXPECT_FALSE(given.give({}));
  given.ended(0);
  EXPECT_EQ(given.give({})->number, 2u);
}

TEST(GivenPlaces, ANumberFromElsewhereIsNotGiven) {
  GivenPlaces given(2, 0);
  given.has_come(17);
  EXPECT_EQ(given.give({})->number, 18u);
  given.has_come(3);
  EXPECT_EQ(given.give({})->number, 19u);
}

}  // namespace
}  // namespace stretto
