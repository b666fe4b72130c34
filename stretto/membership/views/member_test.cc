#include "stretto/membership/views/member.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace stretto {
namespace {

std::shared_ptr<Registered> view_of(std::uint64_t epoch, const std::vector<MemberNumber>& numbers) {
  const auto content = std::make_shared<Registered>();
  content->view.epoch = epoch;
  content->view.next_number = 10;
  for (const MemberNumber number : numbers) content->view.members.push_back({number, "h", 0});
  return content;
}

/// A member of number 3 whose first world has begun.
Member in_first_world() {
  Member member(3, "h", {});
  member.tell(view_of(1, {3, 4}));
  member.enter();
  EXPECT_TRUE(member.begin());
  return member;
}

TEST(Member, StopsForItsEpochAndLaterOnesAlone) {
  Member member = in_first_world();
  EXPECT_FALSE(member.freeze(0)) << "of a world that is over";
  EXPECT_FALSE(member.is_frozen());
  EXPECT_TRUE(member.freeze(1));
  EXPECT_TRUE(member.is_frozen());
  const ReportWords report = member.report(1, {.held = 7, .applied = {{3, 2}}, .pending = true});
  EXPECT_EQ(report.number, 3u);
  EXPECT_EQ(report.holding.held, 7);
  EXPECT_TRUE(report.holding.pending);
  member.tell(view_of(2, {3}));
  member.enter();
  EXPECT_FALSE(member.is_frozen());
}

TEST(Member, EntersNoViewWhoseMembersHaveBeenStopped) {
  Member member = in_first_world();
  EXPECT_TRUE(member.freeze(2)) << "of a view that it has not heard of";
  member.tell(view_of(2, {3, 4}));
  EXPECT_FALSE(member.next());
  member.tell(view_of(3, {3, 4}));
  ASSERT_TRUE(member.next());
  EXPECT_EQ(member.enter().epoch, 3u);
}

TEST(Member, DoesNotBeginOnceItHasStopped) {
  Member member = in_first_world();
  member.tell(view_of(2, {3, 4}));
  member.enter();
  EXPECT_FALSE(member.has_begun());
  EXPECT_TRUE(member.freeze(2));
  EXPECT_FALSE(member.begin());
  EXPECT_FALSE(member.finish());
}

TEST(Member, HearsTheNewestView) {
  Member member = in_first_world();
  member.tell(view_of(3, {3}));
  member.tell(view_of(2, {3, 4}));
  EXPECT_EQ(member.enter().epoch, 3u);
  member.tell(view_of(2, {4}));
  EXPECT_EQ(member.standing(), Standing::present);
}

TEST(Member, KnowsHowItStands) {
  Member excluded = in_first_world(), departed = in_first_world(), passed_over(3, "h", {}), spare(12, "h", {});
  excluded.leave();
  excluded.tell(view_of(2, {4}));
  EXPECT_EQ(excluded.standing(), Standing::excluded) << "also where it wanted to leave";
  const auto without = view_of(2, {4});
  without->view.departed = {3};
  departed.tell(without);
  EXPECT_EQ(departed.standing(), Standing::departed);
  passed_over.tell(view_of(2, {4}));
  EXPECT_EQ(passed_over.standing(), Standing::excluded) << "its number will not come in any more";
  spare.tell(view_of(2, {4}));
  EXPECT_EQ(spare.standing(), Standing::present);
}

TEST(Member, TakesTheEndForItsOwnViewAlone) {
  Member done = in_first_world(), excluded = in_first_world(), spare(12, "h", {}), given_up = in_first_world();
  EXPECT_TRUE(done.finish());
  auto end = view_of(1, {3, 4});
  end->end = JobEnd::done;
  done.tell(end);
  EXPECT_EQ(done.standing(), Standing::finished);
  end = view_of(2, {4});
  end->end = JobEnd::done;
  excluded.tell(end);
  EXPECT_EQ(excluded.standing(), Standing::excluded);
  spare.tell(end);
  EXPECT_EQ(spare.standing(), Standing::finished);
  end = view_of(2, {3, 4});
  end->end = JobEnd::given_up;
  given_up.tell(end);
  EXPECT_EQ(given_up.standing(), Standing::given_up);
}

TEST(Member, SaysAgainWhereItIs) {
  Member member = in_first_world();
  EXPECT_EQ(member.hello().epoch, 1u);
  EXPECT_FALSE(member.hello().stopped);
  EXPECT_TRUE(member.freeze(1));
  EXPECT_EQ(member.hello().stopped, 1u);
  member.tell(view_of(2, {3}));
  EXPECT_EQ(member.hello().epoch, 2u);
}

}  // namespace
}  // namespace stretto
