#include "stretto/membership/views/average_weights.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

using Flags = std::vector<bool>;

/// Of a world after 5 rounds, whose members hold so many.
View view_after_5(const std::vector<RoundsHeld>& held) {
  View view{.epoch = 3, .complete = 5};
  for (const RoundsHeld rounds : held) view.members.push_back({view.members.size(), "h", rounds});
  return view;
}

TEST(WhoWeighs, AModelThatIsItsMembersOwn) {
  const View view = view_after_5({5, 4, kNoModel, 5});
  EXPECT_EQ(who_weighs(view, {true, true, false, true}, false), (Flags{true, false, false, true}));
  EXPECT_EQ(who_weighs(view, {true, true, false, false}, false), (Flags{true, false, false, false}));
}

TEST(WhoWeighs, ARankThatKeepsItsModelAlsoWhereItLacksARound) {
  EXPECT_EQ(who_weighs(view_after_5({5, 4, kNoModel}), {true, true, false}, true), (Flags{true, true, false}));
}

/// Members that have taken over models of several others, which are lost by now, would go on with different ones.
TEST(WhoWeighs, CopiesWhereThereIsNothingElse) {
  EXPECT_EQ(who_weighs(view_after_5({5, 5, kNoModel, 4}), Flags(4), false), (Flags{true, true, false, false}));
}

TEST(WhoWeighs, NobodyWhereAllTakeOverTheModelOfOne) {
  EXPECT_EQ(who_weighs(view_after_5({kNoModel, 5, 4}), Flags(3), false), Flags(3));
  EXPECT_EQ(who_weighs(view_after_5({5}), Flags(1), true), Flags(1));
}

}  // namespace
}  // namespace stretto
