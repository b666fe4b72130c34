#include "stretto/train/job/members/state_giver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "stretto/base/error.h"
#include "stretto/membership/views/asked_givers.h"
#include "stretto/train/job/members/testing/meeting_members.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

/// Member 0, which gives its state, and those that come.
class StateGiverTest : public testing::Test {
 protected:
  StateGiverTest() {
    views_.tell(
        {.epoch = 2, .members = {{.number = 0, .held = 3}, {.number = 1}, {.number = 2}}, .complete = 3, .gives = {0}});
  }
  /// What one that comes gets.
  std::future<GivenState> come(MemberNumber number, Duration within = 60s) {
    return std::async(std::launch::async, [this, number, within] {
      MeetingMember comer(views_, number);
      std::shared_ptr<World> world;
      while (world == nullptr) world = comer.meet(name_of_asking(number, 0), {number, 0}, [] {});
      return receive_state(*world, world->driver(), within);
    });
  }
  static bool is_ready(const std::future<GivenState>& state) {
    return state.wait_for(1ms) == std::future_status::ready;
  }

  const GivenState state_{"account", std::string(3'000'001, 'w'), "", "last"};
  MeetingViews views_;
  MeetingMember member_{views_, 0};
  StateGiver giver_{member_};
};

TEST_F(StateGiverTest, GivesAllThatAskTheStateOfAStepBoundaryBehindThat) {
  giver_.at_boundary([]() -> GivenState {
    ADD_FAILURE() << "nobody has asked";
    return {};
  });
  auto one = come(1), other = come(2);
  int made = 0;
  const auto state = [&] {
    ++made;
    return state_;
  };
  while (!is_ready(one) || !is_ready(other)) giver_.at_boundary(state);
  EXPECT_EQ(one.get(), state_);
  EXPECT_EQ(other.get(), state_);
  EXPECT_GE(made, 1);
  EXPECT_LE(made, 2);
}

TEST_F(StateGiverTest, GivesWhatItStandsByWithWhileItsApplicationWaits) {
  giver_.stays(state_);
  EXPECT_EQ(come(1).get(), state_);
  giver_.goes_on();
}

TEST_F(StateGiverTest, IsAskedAgainWhereItHasComputedTooLong) {
  EXPECT_THROW((void)come(1, 50ms).get(), Failure);
  auto again = come(1);
  while (!is_ready(again)) giver_.at_boundary([this] { return state_; });
  EXPECT_EQ(again.get(), state_);
}

}  // namespace
}  // namespace stretto
