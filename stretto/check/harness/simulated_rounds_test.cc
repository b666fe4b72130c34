// Jobs of many ranks, by messages: what their headers say, and that all of it fits.

#include "stretto/check/harness/simulated_rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>

namespace stretto {
namespace {

using ::testing::HasSubstr;

SimulatedRoundsOptions job_of(int ranks, Policy policy) {
  SimulatedRoundsOptions options{.ranks = ranks};
  options.options.policy = policy;
  return options;
}

/// Every batch once, the same rounds on every rank, and what the headers say of their ranks: nothing beyond 256.
SimulatedRounds run(const SimulatedRoundsOptions& options, bool named) {
  int contributors = 0;
  const SimulatedRounds out = simulate_rounds(options, [&](const RoundResult& result) {
    const RoundHeader& header = *result.header;
    EXPECT_TRUE(header.empty() || header.names_ranks() == named) << "round " << result.round;
    EXPECT_EQ(header.times.size(), named ? static_cast<std::size_t>(header.contributors()) : 0u);
    EXPECT_LE(header.contributors(), options.ranks);
    EXPECT_LE(header.num_arrived(), options.ranks);
    EXPECT_TRUE(header.empty() || header.oldest_base <= result.round);
    contributors = std::max(contributors, header.contributors());
  });
  const auto batches = static_cast<std::uint64_t>(options.ranks) * static_cast<std::uint64_t>(options.steps);
  EXPECT_TRUE(out.all_ranks_agree);
  EXPECT_EQ(out.batches, batches);
  EXPECT_EQ(out.sum, static_cast<std::int64_t>(batches));
  EXPECT_GE(contributors, options.ranks / 2) << "a round of few ranks shows nothing";
  return out;
}

TEST(SimulatedRounds, NameTheirRanksUpTo256) {
  run(job_of(256, Policy::solo()), true);
  run(job_of(257, Policy::solo()), false);
}

TEST(SimulatedRounds, Of1024RanksFitIntoMessagesUnderSolo) {
  run(job_of(1024, Policy::solo()), false);
}

TEST(SimulatedRounds, Of1024RanksFitIntoMessagesUnderQuorum) {
  run(job_of(1024, Policy::at_least(512)), false);
}

TEST(SimulatedRounds, Of1024RanksDrawAmongThoseThatHaveNotDrained) {
  run(job_of(1024, Policy::majority()), false);
}

/// A leader a host, to few others: for each doubling of the hosts a message of the sum, and one of the activation.
/// Under a quorum it tells the counter of those that come on its host, too.
TEST(SimulatedRounds, Of128HostsTalkFromLeaderToLeader) {
  constexpr std::uint64_t kDoublings = 7;
  for (const auto& [policy, a_round] : {std::pair(Policy::full(), kDoublings),
                                        {Policy::solo(), 2 * kDoublings},
                                        {Policy::at_least(512), 2 * kDoublings + 4}}) {
    SimulatedRoundsOptions options = job_of(1024, policy);
    options.hosts = 128;
    options.steps = 20;
    const SimulatedRounds out = run(options, false);
    EXPECT_LE(out.busiest.peers, 9) << policy.to_string();
    EXPECT_LE(out.busiest.messages, a_round * out.rounds + 4 * kDoublings)
        << policy.to_string() << ", and at both ends";
  }
}

/// 10,000 ranks, whose state is larger by a few peers a rank, fit into 1 GB. Where a sanitizer has an allocator of its
/// own, mallinfo2() counts nothing.
TEST(SimulatedRounds, TakeLittleMemoryARank) {
  constexpr int kRanks = 2048;
  const auto in_use = [] {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  const std::size_t before = in_use();
  std::size_t most = 0;
  simulate_rounds(job_of(kRanks, Policy::solo()),
                  [&](const RoundResult&) { most = std::max(most, in_use() - before); });
  EXPECT_LT(most / kRanks, 75'000u) << most;
}

TEST(SimulatedRounds, NameAllRanksOnRequestWhereTheyFit) {
  SimulatedRoundsOptions options = job_of(480, Policy::solo());
  options.options.name_all_ranks = true;
  run(options, true);
  options.ranks = 495;
  try {
    simulate_rounds(options);
    FAIL() << "495 ranks have no room in a header";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the header of a round of 495 ranks takes 8232 bytes where it names them all"));
  }
}

TEST(SimulatedRounds, AreTheSameForTheSameSeed) {
  const auto end = [](std::uint64_t seed) {
    SimulatedRoundsOptions options = job_of(33, Policy::at_least(17));
    options.seed = seed;
    return run(options, true).end;
  };
  EXPECT_EQ(end(1), end(1));
  EXPECT_NE(end(1), end(2));
}

}  // namespace
}  // namespace stretto
