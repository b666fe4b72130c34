#include "stretto/train/job/members/state_giver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "stretto/base/error.h"
#include "stretto/train/job/members/testing/meeting_members.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

/// Member 0, which gives its state, and member 1, which comes.
class StateGiverTest : public testing::Test {
 protected:
  StateGiverTest() {
    views_.tell({.epoch = 2, .members = {{.number = 0, .held = 3}, {.number = 1}}, .complete = 3, .gives = {0}});
  }
  /// What member 1 gets.
  std::future<GivenState> come(Duration within = 60s) {
    return std::async(std::launch::async, [this, within] {
      MeetingMember comer(views_, 1);
      std::shared_ptr<World> world;
      while (world == nullptr) world = comer.meet(name_of_giving(0, 1), {0, 1}, [] {});
      return receive_state(*world, world->driver(), within);
    });
  }
  void wait_until_asked() {
    const SteadyClock clock;
    const TimePoint late = clock.now() + 60s;
    while (!giver_.is_asked() && clock.now() < late) std::this_thread::sleep_for(1ms);
    ASSERT_TRUE(giver_.is_asked());
  }

  const GivenState state_{"account", std::string(3'000'001, 'w'), "", "last"};
  MeetingViews views_;
  MeetingMember member_{views_, 0};
  StateGiver giver_{member_};
};

TEST_F(StateGiverTest, GivesTheStateOfAStepBoundaryBehindTheQuestion) {
  auto comer = come();
  wait_until_asked();
  giver_.hand_over(state_, false);
  EXPECT_EQ(comer.get(), state_);
  EXPECT_FALSE(giver_.is_asked());
}

TEST_F(StateGiverTest, GivesWhatItStandsByWithWhileItsApplicationWaits) {
  giver_.hand_over(state_, true);
  EXPECT_EQ(come().get(), state_);
  giver_.goes_on(0);
}

TEST_F(StateGiverTest, AsksInVainWhereTheApplicationComputes) {
  auto comer = come(50ms);
  EXPECT_THROW((void)comer.get(), Failure);
  auto next = come();
  wait_until_asked();
  while (next.wait_for(1ms) != std::future_status::ready) {
    if (giver_.is_asked()) giver_.hand_over(state_, false);
  }
  EXPECT_EQ(next.get(), state_);
}

}  // namespace
}  // namespace stretto
