#include "stretto/membership/views/view.h"

#include <gtest/gtest.h>

#include <string>

namespace stretto {
namespace {

Registered an_eighth_view() {
  Registered content;
  content.view = {.epoch = 8,
                  .members = {{3, "node-a", 41}, {7, "node \"b\"", 40}, {11, "ö", kNoModel}},
                  .complete = 41,
                  .departed = {1, 5},
                  .left = {{5, 31}},
                  .next_number = 12,
                  .unused = {2, 10},
                  .leaving = {7},
                  .gives = {3},
                  .rows = 2,
                  .position = {130, 2, 127, 128},
                  .terms = {{"version", "0.4"}, {"optimizer", "sgd"}}};
  return content;
}

TEST(View, KnowsItsMembersAndWhoHasDeparted) {
  const View view = an_eighth_view().view;
  EXPECT_EQ(view.place_of(7), 1u);
  EXPECT_FALSE(view.place_of(5));
  EXPECT_TRUE(view.has(11));
  EXPECT_FALSE(view.has(4));
  EXPECT_TRUE(view.has_departed(5));
  EXPECT_FALSE(view.has_departed(4));
}

TEST(View, IsAwaitedByThoseWhomNobodyGivesWhatTheyLack) {
  const auto is_awaited = [](void (*change)(View&)) {
    View view{.epoch = 2, .members = {{0, "h", 4}, {1, "h", 4}}, .complete = 4};
    change(view);
    return view.is_awaited();
  };
  EXPECT_FALSE(is_awaited([](View&) {}));
  EXPECT_TRUE(is_awaited([](View& v) { v.members[1].held = 3; }));
  EXPECT_TRUE(is_awaited([](View& v) { v.members[1].held = kNoModel; }));
  EXPECT_FALSE(is_awaited([](View& v) { v.members[1].held = kNoModel, v.gives = {0}; }));
  EXPECT_TRUE(is_awaited([](View& v) { v.members[1].held = 3, v.gives = {0}; }))
      << "a round is given in the world alone";
  EXPECT_TRUE(is_awaited([](View& v) { v.leaving = {1}; }));
}

TEST(View, KnowsWhichNumbersNobodyHasComeInBy) {
  View view = an_eighth_view().view;
  for (const MemberNumber number : {2u, 10u, 12u, 100u}) EXPECT_TRUE(view.may_come_in(number)) << number;
  for (const MemberNumber number : {0u, 1u, 3u, 11u}) EXPECT_FALSE(view.may_come_in(number)) << number;
  view.members = {{10, "node-a", 41}, {15, "node-b", kNoModel}};
  view.use_numbers();
  EXPECT_EQ(view.next_number, 16u);
  EXPECT_EQ(view.unused, (std::vector<MemberNumber>{2, 12, 13, 14}));
  view.members.push_back({MemberNumber{1} << 62, "node-c", kNoModel});
  view.use_numbers();
  EXPECT_LE(view.unused.size(), 4096u);  // of such numbers only the latest may still come
}

TEST(View, TravelsAsOneLine) {
  for (const JobEnd end : {JobEnd::none, JobEnd::done, JobEnd::given_up}) {
    Registered content = an_eighth_view();
    content.end = end;
    const std::string line = content.encoded();
    EXPECT_EQ(line.find('\n'), std::string::npos);
    EXPECT_EQ(Registered::decoded(line).value(), content);
  }
  EXPECT_EQ(Registered::decoded(Registered().encoded()).value(), Registered());
}

TEST(View, RefusesALineThatIsCutOff) {
  const std::string line = an_eighth_view().encoded();
  for (std::size_t size = 0; size < line.size(); ++size) {
    const auto read = Registered::decoded(std::string_view(line).substr(0, size));
    ASSERT_FALSE(read) << size;
    EXPECT_EQ(read.error().code, Errc::bad_input);
  }
}

TEST(View, RefusesWhatContradictsItself) {
  const auto refused = [](void (*change)(Registered&), const char* why) {
    Registered content = an_eighth_view();
    change(content);
    const auto read = Registered::decoded(content.encoded());
    ASSERT_FALSE(read) << why;
    EXPECT_NE(read.error().message.find(why), std::string::npos) << read.error().message;
  };
  refused([](Registered& c) { c.view.members[1].number = 3; }, "twice");
  refused([](Registered& c) { c.view.members[0].held = 42; }, "more rounds");
  refused([](Registered& c) { c.view.members[0].held = -2; }, "more rounds");
  refused([](Registered& c) { c.view.members.clear(); }, "from epoch 1 on");
  refused([](Registered& c) { c.view.next_number = 11; }, "next_number");
  refused([](Registered& c) { c.view.departed = {5, 1}; }, "ascending");
  refused([](Registered& c) { c.view.departed = {3}; }, "departed");
  refused([](Registered& c) { c.view.departed = {12}; }, "departed");
  refused([](Registered& c) { c.view.unused = {10, 2}; }, "unused: expected ascending");
  refused([](Registered& c) { c.view.unused = {5}; }, "unused: a number that has been used");
  refused([](Registered& c) { c.view.unused = {7}; }, "unused: a number that has been used");
  refused([](Registered& c) { c.view.unused = {12}; }, "unused: a number that has been used");
  refused([](Registered& c) { c.view.gives = {11}; }, "gives");
  refused([](Registered& c) { c.view.left = {{4, 1}}; }, "left");
  refused([](Registered& c) { c.view.rows = 4; }, "rows");
  refused([](Registered& c) { c.view.rows = -1; }, "rows");
  refused([](Registered& c) { c.end = static_cast<JobEnd>(3); }, "end");
}

TEST(View, RefusesOtherTypes) {
  for (const char* line : {"", "[]", "7", R"({"epoch":1})",
                           R"({"epoch":-1,"members":[],"complete":0,)"
                           R"("departed":[],"unused":[],"position":[],"next_number":0,"terms":{},"end":0})",
                           R"({"epoch":0,"members":{},"complete":0,)"
                           R"("departed":[],"unused":[],"position":[],"next_number":0,"terms":{},"end":0})",
                           R"({"epoch":1,"members":[[0,"h",1e30]],"complete":0,)"
                           R"("departed":[],"unused":[],"position":[],"next_number":1,"terms":{},"end":0})",
                           R"({"epoch":1,"members":[[0,"h",18446744073709551615]],"complete":0,)"
                           R"("departed":[],"unused":[],"position":[],"next_number":1,"terms":{},"end":0})",
                           R"({"epoch":0,"members":[],"complete":0,)"
                           R"("departed":[],"unused":[],"position":[1.5],"next_number":0,"terms":{},"end":0})",
                           R"({"epoch":0,"members":[],"complete":0,)"
                           R"("departed":[],"unused":[],"position":[],"next_number":0,"terms":{"a":1},"end":0})"}) {
    EXPECT_FALSE(Registered::decoded(line)) << line;
  }
}

/// Numbers by place, where those that stay are closed up.
std::vector<MemberNumber> closed_up(const std::vector<MemberNumber>& before, const std::vector<MemberNumber>& stay) {
  const auto placed = [](const std::vector<MemberNumber>& numbers) {
    std::vector<PlacedMember> members;
    for (const MemberNumber number : numbers) members.push_back({.number = number});
    return members;
  };
  const View view{.members = placed(before)};
  std::vector<MemberNumber> out;
  for (const PlacedMember& member : view.closed_up(placed(stay))) out.push_back(member.number);
  return out;
}

TEST(View, ThoseThatStayKeepTheirPlacesAndTheLastFillTheOthers) {
  using Numbers = std::vector<MemberNumber>;
  EXPECT_EQ(closed_up({0, 1, 2, 3, 4}, {0, 1, 2, 3, 4}), (Numbers{0, 1, 2, 3, 4}));
  EXPECT_EQ(closed_up({0, 1, 2, 3, 4}, {0, 2, 3, 4}), (Numbers{0, 4, 2, 3}));
  EXPECT_EQ(closed_up({0, 1, 2, 3, 4}, {0, 1, 2, 3}), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(closed_up({7, 3, 9, 4, 8}, {9, 4}), (Numbers{4, 9})) << "both places before are free";
  EXPECT_EQ(closed_up({7, 3, 9, 4, 8}, {3, 8}), (Numbers{8, 3}));
  EXPECT_EQ(closed_up({7, 3}, {}), Numbers());
}

}  // namespace
}  // namespace stretto
