#include "stretto/train/job/members/line_worlds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/base/random.h"
#include "stretto/train/job/members/testing/meeting_members.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using Line = std::vector<MemberNumber>;

View view_of(std::uint64_t epoch, const std::vector<MemberNumber>& members, RoundsHeld held = 0) {
  View view{.epoch = epoch};
  for (const MemberNumber member : members) view.members.push_back({.number = member, .held = held});
  return view;
}

/// Of all members, by dimension; in each of them a member is in one at most.
std::set<std::pair<int, Line>> lines_in(const View& view, const GridOptions& grid = {}) {
  std::set<std::pair<int, Line>> lines;
  for (int dimension = 0; dimension < grid.dimensions; ++dimension) {
    std::map<MemberNumber, Line> of;
    for (const PlacedMember& member : view.members) {
      const Line line = line_in(view, true, member.number, dimension, grid, 1000);
      if (line.empty()) continue;
      EXPECT_EQ(std::ranges::count(line, member.number), 1);
      for (const MemberNumber other : line) {
        EXPECT_TRUE(of.try_emplace(other, line).first->second == line) << "member " << other << " is in two";
      }
      lines.emplace(dimension, line);
    }
  }
  return lines;
}

TEST(LineIn, FollowsTheLayoutOfThoseThatHaveAModel) {
  View view = view_of(3, {7, 3, 9, 4});
  EXPECT_EQ(line_in(view, false, 7, 0, {}, 10), (Line{7, 3}));
  EXPECT_EQ(line_in(view, false, 7, 1, {}, 10), (Line{7, 9}));
  EXPECT_EQ(line_in(view, false, 8, 0, {}, 10), Line());
  view.members[1].held = kNoModel;
  EXPECT_EQ(line_in(view, false, 3, 0, {}, 10), Line()) << "it is in none before it has a model";
  EXPECT_EQ(line_in(view, false, 7, 0, {}, 10), (Line{7, 9, 4})) << "three make a single line";
  EXPECT_EQ(line_in(view, false, 7, 1, {}, 10), Line());
  EXPECT_EQ(line_in(view, true, 7, 0, {}, 10), (Line{7, 3}));
  EXPECT_EQ(line_in(view, false, 7, 0, {}, 2), Line()) << "longer than the model";
  EXPECT_EQ(line_in(view, false, 7, 0, {.rows = 4}, 10), (Line{7, 9, 4})) << "rows that do not fit";
  EXPECT_EQ(line_in(view_of(1, {7}), true, 7, 0, {}, 10), Line());
}

/// Members of `before` that have another place now.
std::ptrdiff_t moved(const View& before, const View& now) {
  return std::ranges::count_if(now.members, [&](const PlacedMember& member) {
    const auto place = before.place_of(member.number);
    return place && place != now.place_of(member.number);
  });
}

TEST(LineIn, FewLinesChangeWhereAMemberComesOrGoes) {
  Random random(5);
  std::vector<MemberNumber> members;
  MemberNumber next = 0;
  while (next < 40) members.push_back(next++);
  std::size_t changed = 0, all = 0;
  constexpr std::size_t kChanges = 4000;
  View view = view_of(1, members);
  view.rows = view.rows_among(40);
  auto lines = lines_in(view);
  for (std::uint64_t change = 1; change <= kChanges; ++change) {
    const View before = view;
    const std::size_t count = view.members.size();
    if (count < 90 && (count <= 8 || random.below(2) == 0)) {
      view.members.push_back({.number = next++, .held = 0});
    } else {
      std::vector<PlacedMember> stay = view.members;
      stay.erase(stay.begin() + static_cast<std::ptrdiff_t>(random.below(count)));
      view.members = view.closed_up(stay);
    }
    view.epoch = change + 1;
    view.rows = view.rows_among(view.members.size());
    EXPECT_LE(moved(before, view), 1);
    auto now = lines_in(view);
    changed +=
        static_cast<std::size_t>(std::ranges::count_if(now, [&](const auto& line) { return !lines.contains(line); }));
    all += now.size();
    lines = std::move(now);
  }
  const double changed_each = static_cast<double>(changed) / kChanges;
  std::printf("%.2f of %zu lines change\n", changed_each, all / kChanges);
  EXPECT_LE(changed_each, 3.2);
}

/// A node that makes steps of its own, and takes what its lines bring, until it is destroyed.
class TestNode {
 public:
  TestNode(MeetingViews& views, MemberNumber number)
      : changes_(views, number),
        grid_(std::make_shared<GridAllreduce>(changes_.clock(), std::vector<BucketSpec>{{DataType::int64, 40}},
                                              GridAllreduceOptions{})),
        worlds_(std::make_unique<LineWorlds>(changes_, grid_)),
        application_([this] { train(); }) {}
  ~TestNode() {
    stops_ = true;
    application_.join();
    worlds_.reset();
  }
  TestNode(const TestNode&) = delete;
  TestNode& operator=(const TestNode&) = delete;

  GridCounts counts(int dimension) const { return grid_->counts(dimension); }
  std::string failure() const { return grid_->failure() ? grid_->failure()->message : ""; }
  int num_models() const { return grid_->num_models(); }

 private:
  void train() {
    std::int64_t step = 0;
    while (!stops_) {
      grid_->take([](const GridSlice& slice) { EXPECT_NE(slice.brought, nullptr); });
      Contribution& model = grid_->acquire();
      std::ranges::fill(model.as<std::int64_t>(0), ++step);
      grid_->publish(&model, 1);
      std::this_thread::sleep_for(1ms);
    }
  }

  MeetingMember changes_;
  const std::shared_ptr<GridAllreduce> grid_;
  std::unique_ptr<LineWorlds> worlds_;
  std::atomic<bool> stops_{false};
  std::thread application_;
};

TEST(LineWorldsTest, LinesThatDoNotChangeStayAndTheOthersGoOn) {
  MeetingViews views;
  std::map<MemberNumber, std::unique_ptr<TestNode>> nodes;
  std::vector<MemberNumber> members;
  MemberNumber next = 0;
  const SteadyClock clock;
  Random random(11);
  View view = view_of(0, {});
  std::map<std::pair<MemberNumber, int>, std::pair<Line, std::uint64_t>> before;  // its line, and how many before it

  for (int change = 0; change < 25; ++change) {
    const bool comes = change < 6 || view.members.size() < 3 || (view.members.size() < 10 && random.below(2) == 0);
    if (comes) {
      nodes.emplace(next, std::make_unique<TestNode>(views, next));
      view.members.push_back({.number = next++, .held = 0});
    } else {
      std::vector<PlacedMember> stay = view.members;
      const auto gone = stay.begin() + static_cast<std::ptrdiff_t>(random.below(stay.size()));
      const MemberNumber number = gone->number;
      stay.erase(gone);
      view.members = view.closed_up(stay);
      if (random.below(2) == 0) nodes.erase(number);  // the others see that it is gone before they hear of it
      view.epoch = static_cast<std::uint64_t>(change) + 1;
      views.tell(view);
      nodes.erase(number);
    }
    view.epoch = static_cast<std::uint64_t>(change) + 1;
    views.tell(view);
    for (const auto& [number, node] : nodes) {
      for (const int dimension : {0, 1}) {
        const Line line = line_in(view, true, number, dimension, {}, 40);
        auto& [was, entered] = before[{number, dimension}];
        const std::uint64_t applied = node->counts(dimension).applied;
        const TimePoint late = clock.now() + 60s;
        const auto goes_on = [&] {
          const GridCounts counts = node->counts(dimension);
          return line.empty() || (counts.applied > applied + 2 && (line == was || counts.entered > entered));
        };
        while (!goes_on() && clock.now() < late) std::this_thread::sleep_for(1ms);
        ASSERT_TRUE(goes_on()) << "member " << number << " in dimension " << dimension << " behind change " << change;
        EXPECT_EQ(node->failure(), "");
        EXPECT_LE(node->num_models(), 4);
        if (line == was) {
          EXPECT_EQ(node->counts(dimension).entered, entered) << "a line that has not changed";
        }
        was = line;
        entered = node->counts(dimension).entered;
      }
    }
  }
}

}  // namespace
}  // namespace stretto
