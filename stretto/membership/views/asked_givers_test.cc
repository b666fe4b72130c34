#include "stretto/membership/views/asked_givers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

View view_with_comers() {
  return {.members = {{.number = 1, .held = 0}, {.number = 2, .held = 0}, {.number = 8}, {.number = 9}},
          .gives = {1, 2}};
}

TEST(AskedGivers, AskOneAfterTheOtherAndWaitLongerEachTimeRound) {
  AskedGivers one;
  const View view = view_with_comers();
  const auto first = one.next(view, 8), second = one.next(view, 8), again = one.next(view, 8);
  EXPECT_THAT((std::set{first.giver, second.giver}), ElementsAre(1u, 2u));
  EXPECT_EQ(again.giver, first.giver);
  EXPECT_EQ(second.within, first.within);
  EXPECT_GT(again.within, first.within);
}

TEST(AskedGivers, AskOthersThanAnotherThatComes) {
  EXPECT_NE(AskedGivers().next(view_with_comers(), 8).giver, AskedGivers().next(view_with_comers(), 9).giver);
}

TEST(AskedGivers, AreAskedByThoseWithoutAModel) {
  EXPECT_THAT(comers_to(view_with_comers(), 1), ElementsAre(8u, 9u));
  EXPECT_THAT(comers_to(view_with_comers(), 8), IsEmpty());
  View many = view_with_comers();
  many.gives = {1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(comers_to(many, 1).size() + comers_to(many, 2).size() + comers_to(many, 3).size() +
                comers_to(many, 4).size() + comers_to(many, 5).size() + comers_to(many, 6).size() +
                comers_to(many, 7).size(),
            8u)
      << "four for each";
}

}  // namespace
}  // namespace stretto
