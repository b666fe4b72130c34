#include "stretto/collective/protocol/policy.h"

#include <gtest/gtest.h>

#include <map>

namespace stretto {
namespace {

using namespace std::chrono_literals;

RoundHeader header_of(int ranks, std::uint64_t batches, std::initializer_list<int> drained = {}) {
  RoundHeader header(ranks);
  header.batches = batches;
  for (int rank : drained) header.drained.insert(rank);
  return header;
}

TEST(Policy, SurvivesItsWordAndItsText) {
  const Policy policies[] = {Policy::full(),
                             Policy::solo(),
                             Policy::majority(),
                             Policy::at_least(3),
                             Policy::deadline(2, 20ms),
                             Policy::adaptive_deadline(5)};
  for (const Policy& policy : policies) {
    EXPECT_EQ(Policy::decode(policy.encode()), policy) << policy.to_string();
    EXPECT_EQ(Policy::parse(policy.to_string(), 8), policy) << policy.to_string();
    EXPECT_NE(policy.encode(), 0u) << "0 says that the policy is not known";
  }
  EXPECT_EQ(Policy::parse("quorum", 7), Policy::at_least(4));
}

RankSet set_of(int ranks, std::initializer_list<int> members) {
  RankSet set(ranks);
  for (int rank : members) set.insert(rank);
  return set;
}

/// From when on a round of 4 ranks may start where some have arrived, the first after 7 s, and others drained.
TimePoint start_from(const Policy& policy, std::initializer_list<int> arrived,
                     std::initializer_list<int> drained = {}) {
  return may_start_from(policy, {set_of(4, arrived), set_of(4, drained), {7s}, LearnedPatience()});
}

TEST(Policy, SaysWhenARoundMayStart) {
  constexpr TimePoint kAtOnce, kNever = TimePoint::never();
  Policy drawn = Policy::majority();
  drawn.initiator = 2;
  const Policy deadline = Policy::deadline(2, 20ms);
  struct Case {
    Policy policy;
    std::initializer_list<int> arrived, drained;
    TimePoint from;
  };
  const Case cases[] = {
      {Policy::full(), {0, 1, 3}, {}, kNever},
      {Policy::full(), {0, 1}, {2, 3}, kAtOnce},
      {Policy::solo(), {3}, {}, kAtOnce},
      {Policy::solo(), {}, {0, 1, 2}, kNever},
      {drawn, {0, 1, 3}, {}, kNever},
      {drawn, {2}, {}, kAtOnce},
      {drawn, {}, {2}, kAtOnce},
      {Policy::at_least(2), {1}, {}, kNever},
      {Policy::at_least(2), {1}, {0}, kAtOnce},
      {Policy::at_least(2), {}, {0, 1, 2}, kNever},
      {deadline, {1}, {}, kNever},
      {deadline, {1, 2}, {}, {7s + 20ms}},
      {deadline, {1, 2}, {0, 3}, kAtOnce},
      {Policy::adaptive_deadline(2), {1, 2}, {}, {7s}},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(start_from(c.policy, c.arrived, c.drained), c.from) << c.policy.to_string() << ", case " << &c - cases;
  }
  for (const Policy& policy : {Policy::full(), Policy::solo(), drawn, Policy::at_least(3), deadline}) {
    EXPECT_EQ(start_from(policy, {}, {0, 1, 2, 3}), kAtOnce) << policy.to_string() << ": the last round";
  }
}

TEST(Policy, RefusesWhatCannotBe) {
  for (const char* bad : {"", "fast", "quorum:0", "quorum:9", "quorum:x", "quorum:4x", "deadline:4", "deadline:4,20",
                          "deadline:4,-1ms", "deadline:9,1ms", "solo:2", "full:1"}) {
    EXPECT_THROW(Policy::parse(bad, 8), UsageError) << bad;
  }
  EXPECT_THROW(PolicyRule(Policy::at_least(5), 4, 0), UsageError);
  EXPECT_THROW(PolicyRule(Policy::at_least(0), 4, 0), UsageError);
}

TEST(PolicyRule, DrawsEveryRankAboutEquallyAndAlikeEverywhere) {
  PolicyRule here(Policy::majority(), 5, 42);
  PolicyRule there(Policy::majority(), 5, 42);
  std::map<std::uint32_t, int> drawn;
  for (int round = 0; round < 5000; ++round) {
    ASSERT_EQ(here.current(), there.current());
    ++drawn[here.current().initiator];
    here.advance(header_of(5, 1));
    there.advance(header_of(5, 1));
  }
  ASSERT_EQ(drawn.size(), 5u);
  for (const auto& [rank, count] : drawn) EXPECT_NEAR(count, 1000, 120) << "rank " << rank;
}

TEST(PolicyRule, DrawsNoRankThatTheHeaderBeforeShowsDrained) {
  PolicyRule rule(Policy::majority(), 4, 7);
  for (int round = 0; round < 200; ++round) {
    rule.advance(header_of(4, 1, {0, 2}));
    EXPECT_TRUE(rule.current().initiator == 1 || rule.current().initiator == 3);
  }
}

TEST(PolicyRule, IsFullWhenTheBatchesBeforeHavePassedAMultiple) {
  PolicyRule rule(Policy::solo(), 2, 0, 10);
  const std::uint64_t batches[] = {4, 4, 4, 1, 0, 7, 25, 3};
  const bool full[] = {false, false, false, true, false, false, true, true};
  // Batches before:   0      4      8      12    13     13     20    45
  for (int round = 0; round < 8; ++round) {
    EXPECT_EQ(rule.current().kind == Policy::Kind::full, full[round]) << "round " << round;
    rule.advance(header_of(2, batches[round]));
  }
}

TEST(PolicyRule, ResumesWithoutAFullRoundForWhatWasBefore) {
  PolicyRule rule(Policy::solo(), 2, 0, 10);
  rule.resume_at(37);
  EXPECT_EQ(rule.current().kind, Policy::Kind::solo);
  rule.advance(header_of(2, 2));
  EXPECT_EQ(rule.current().kind, Policy::Kind::solo);
  rule.advance(header_of(2, 1));
  EXPECT_EQ(rule.current().kind, Policy::Kind::full);
}

}  // namespace
}  // namespace stretto
