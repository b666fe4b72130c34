#include "stretto/membership/views/missed_links.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace stretto {
namespace {

using namespace std::chrono_literals;
using Numbers = std::vector<MemberNumber>;

/// The hosts of the members of a view, by their numbers.
View view_on(const std::vector<std::string>& hosts) {
  View view{.epoch = 3};
  for (const std::string& host : hosts) view.members.push_back({view.members.size(), host, 0});
  view.next_number = view.members.size();
  return view;
}

MissedLinks::Verdict verdict_of(const std::vector<std::string>& hosts, const std::vector<Numbers>& missed,
                                const std::set<MemberNumber>& lost = {}) {
  const View view = view_on(hosts);
  const auto is_lost = [&](MemberNumber number) { return lost.contains(number); };
  MissedLinks links;
  for (const Numbers& pair : missed) links.miss(view, pair[0], pair[1], {1s});
  EXPECT_FALSE(links.decide(view, is_lost, {1s + MissedLinks::kGather - 1ms})) << "others may say so, too";
  const auto verdict = links.decide(view, is_lost, {1s + MissedLinks::kGather});
  EXPECT_FALSE(links.decide(view, is_lost, {9s})) << "once";
  return verdict.value_or(MissedLinks::Verdict());
}

TEST(MissedLinks, OfTwoHostsTheOneWithFewerMembersGoes) {
  const auto verdict = verdict_of({"h1", "h2", "h3", "h3"}, {{1, 2}});
  EXPECT_EQ(verdict.without, Numbers{1});
  EXPECT_EQ(verdict.hosts, std::set<std::string>{"h2"});
  EXPECT_EQ(verdict.why, "h2 and h3 do not reach each other: the others go on without member 1 on h2");
}

TEST(MissedLinks, OfTwoHostsWithAsManyTheOneWithTheHigherNumbersGoes) {
  const auto verdict = verdict_of({"h1", "h2", "h3", "h2", "h3"}, {{2, 1}, {1, 4}, {4, 3}});
  EXPECT_EQ(verdict.without, (Numbers{2, 4}));
  EXPECT_EQ(verdict.why, "h3 and h2 do not reach each other: the others go on without members 2, 4 on h3");
}

TEST(MissedLinks, AHostThatMissesAllOthersGoesAlone) {
  const auto verdict = verdict_of({"h1", "h1", "h2", "h3"}, {{0, 2}, {0, 3}});
  EXPECT_EQ(verdict.without, (Numbers{0, 1})) << "though the others have fewer members";
  EXPECT_EQ(verdict_of({"h1", "h2", "h3"}, {{0, 1}, {1, 2}, {0, 2}}).without, (Numbers{1, 2})) << "all miss all";
}

TEST(MissedLinks, MembersThatAreLostMissNobody) {
  EXPECT_EQ(verdict_of({"h1", "h2", "h3"}, {{1, 2}, {2, 1}}, {2}).without, Numbers());
  EXPECT_EQ(verdict_of({"h1", "h2", "h2", "h3", "h3"}, {{1, 3}}, {4}).without, (Numbers{3})) << "one is left there";
}

TEST(MissedLinks, HostsOfOneNameAreToldApartByTheirMembers) {
  const auto verdict = verdict_of({"box", "box", "box"}, {{0, 2}});
  EXPECT_EQ(verdict.without, Numbers{2});
  EXPECT_TRUE(verdict.hosts.empty());
}

TEST(MissedLinks, WhatWasSaidInAWorldBeforeCountsNoMore) {
  View view = view_on({"h1", "h2"});
  const auto is_lost = [](MemberNumber) { return false; };
  MissedLinks links;
  links.miss(view, 0, 1, {1s});
  ++view.epoch;
  EXPECT_FALSE(links.decide(view, is_lost, {9s}));
  links.miss(view, 0, 1, {9s});
  EXPECT_FALSE(links.decide(view, is_lost, {9s})) << "it gathers anew";
  EXPECT_TRUE(links.decide(view, is_lost, {10s}));
}

}  // namespace
}  // namespace stretto
