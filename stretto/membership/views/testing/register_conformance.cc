#include "stretto/membership/views/testing/register_conformance.h"

#include <gtest/gtest.h>

#include <map>

namespace stretto {
namespace {

void expect_empty_at_first(Register& cell) {
  const auto content = cell.read();
  ASSERT_TRUE(content);
  EXPECT_EQ(*content, Registered());
}

void expect_views_in_a_row(Register& cell) {
  View last;
  for (int i = 0; i < 5; ++i) {
    const View next = view_after(last);
    EXPECT_EQ(cell.commit(next), Written::done);
    EXPECT_EQ(cell.read().value(), (Registered{next, JobEnd::none}));
    EXPECT_EQ(cell.commit(next), Written::refused) << "twice";
    View other = next;
    other.complete += 7;
    EXPECT_EQ(cell.commit(other), Written::refused) << "another view of the same epoch";
    View ahead = view_after(view_after(next));
    EXPECT_EQ(cell.commit(ahead), Written::refused) << "an epoch is left out";
    EXPECT_EQ(cell.read().value(), (Registered{next, JobEnd::none})) << "what is refused changes nothing";
    last = next;
  }
}

void expect_one_end(Register& cell) {
  const View first = view_after({}), second = view_after(first);
  ASSERT_EQ(cell.commit(first), Written::done);
  ASSERT_EQ(cell.commit(second), Written::done);
  EXPECT_EQ(cell.end(first.epoch, JobEnd::done), Written::refused) << "the end of a view that is over";
  EXPECT_EQ(cell.end(second.epoch + 1, JobEnd::done), Written::refused) << "the end of a view to come";
  EXPECT_EQ(cell.read().value().end, JobEnd::none);
  EXPECT_EQ(cell.end(second.epoch, JobEnd::given_up), Written::done);
  EXPECT_EQ(cell.read().value(), (Registered{second, JobEnd::given_up}));
  EXPECT_EQ(cell.end(second.epoch, JobEnd::done), Written::refused) << "a second end";
  EXPECT_EQ(cell.commit(view_after(second)), Written::refused) << "a view after the end";
  EXPECT_EQ(cell.read().value(), (Registered{second, JobEnd::given_up}));
}

void expect_reports(Register& cell) {
  EXPECT_TRUE(cell.reports().value().empty());
  ASSERT_TRUE(cell.commit(view_after({})) == Written::done && cell.end(1, JobEnd::done) == Written::done);
  const std::string report("{\"ü\"}\n\0", 8);
  EXPECT_TRUE(cell.keep_report(12, "another") && cell.keep_report(3, "") && cell.keep_report(12, report));
  EXPECT_EQ(cell.reports().value(), (std::map<MemberNumber, std::string>{{3, ""}, {12, report}}));
  EXPECT_EQ(cell.read().value(), (Registered{view_after({}), JobEnd::done}));
}

}  // namespace

View view_after(const View& before) {
  View next = before;
  ++next.epoch;
  next.members.push_back({next.next_number, text("host ", next.epoch, "\n\"ü\""), kNoModel});
  next.complete += 3;
  if (next.members.size() > 3) {
    next.departed.push_back(next.members.front().number);
    next.members.erase(next.members.begin());
  }
  next.members.front().held = static_cast<RoundsHeld>(next.complete);
  ++next.next_number;
  next.position = {next.epoch * 11, 0, 1};
  next.terms["optimizer"] = text("sgd ", next.epoch);
  return next;
}

void expect_register(const RegisterKind& kind) {
  SCOPED_TRACE(kind.name);
  expect_empty_at_first(*kind.make());
  expect_views_in_a_row(*kind.make());
  expect_one_end(*kind.make());
  expect_reports(*kind.make());
}

}  // namespace stretto
