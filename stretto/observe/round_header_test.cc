#include "stretto/observe/round_header.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "stretto/base/random.h"

namespace stretto {
namespace {

constexpr int kSizes[] = {1, 2, 3, 7, 16, 33, 63, 64, 65, 128, 130, 300};

/// What the ranks for which `mine` holds could have brought together.
RoundHeader drawn(Random& random, int ranks, auto mine) {
  RoundHeader header(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    if (!mine(rank)) continue;
    if (random.chance(0.5)) header.arrived.insert(rank);
    if (random.chance(0.2)) header.drained.insert(rank);
    if (!random.chance(0.7)) continue;
    (random.chance(0.5) ? header.fresh : header.stale).insert(rank);
    const std::uint64_t base = random.below(1000);
    header.batches += 1;
    header.samples += random.below(64);
    header.oldest_base = std::min(header.oldest_base, base);
    header.sum_of_bases += base;
    const auto part = [&] { return static_cast<float>(random.uniform()); };
    header.times.push_back(
        {static_cast<std::uint16_t>(rank), static_cast<std::uint16_t>(random.below(9)), part(), part(), part()});
  }
  return header;
}

RoundHeader drawn(Random& random, int ranks) {
  return drawn(random, ranks, [](int) { return true; });
}

std::vector<std::byte> written(const RoundHeader& header) {
  std::vector<std::byte> bytes(header.wire_bytes());
  header.write(bytes.data());
  return bytes;
}

RoundHeader merged(RoundHeader a, const RoundHeader& b) {
  a.merge(b);
  return a;
}

TEST(RoundHeader, ReadsWhatItWrote) {
  Random random(1);
  RoundHeader reused(5);
  for (int ranks : kSizes) {
    for (int i = 0; i < 50; ++i) {
      const RoundHeader header = drawn(random, ranks);
      ASSERT_TRUE(reused.read(written(header), ranks));
      EXPECT_EQ(reused, header);
      EXPECT_EQ(reused.ranks(), ranks);
    }
  }
}

TEST(RoundHeader, ReadsFromMemoryThatIsNotAligned) {
  Random random(2);
  const RoundHeader header = drawn(random, 33);
  const auto bytes = written(header);
  std::vector<std::byte> shifted(bytes.size() + 1);
  std::copy(bytes.begin(), bytes.end(), shifted.begin() + 1);
  RoundHeader copy;
  ASSERT_TRUE(copy.read(std::span(shifted).subspan(1), 33));
  EXPECT_EQ(copy, header);
}

TEST(RoundHeader, MergesInAnyOrderAndGrouping) {
  Random random(3);
  for (int ranks : kSizes) {
    for (int i = 0; i < 50; ++i) {
      std::vector<std::uint64_t> owner(static_cast<std::size_t>(ranks));
      for (auto& o : owner) o = random.below(3);
      const auto part = [&](std::uint64_t who) {
        return drawn(random, ranks, [&](int rank) { return owner[static_cast<std::size_t>(rank)] == who; });
      };
      const RoundHeader a = part(0), b = part(1), c = part(2);
      EXPECT_EQ(merged(a, b), merged(b, a));
      EXPECT_EQ(merged(merged(a, b), c), merged(a, merged(b, c)));
      EXPECT_EQ(merged(a, RoundHeader(ranks)), a);
      EXPECT_EQ(merged(RoundHeader(ranks), a), a);
      const RoundHeader all = merged(merged(c, a), b);
      EXPECT_EQ(all.batches, a.batches + b.batches + c.batches);
      EXPECT_EQ(all.contributors(), a.contributors() + b.contributors() + c.contributors());
      EXPECT_EQ(all.times.size(), a.times.size() + b.times.size() + c.times.size());
      EXPECT_TRUE(std::is_sorted(all.times.begin(), all.times.end(),
                                 [](const RankTimes& x, const RankTimes& y) { return x.rank < y.rank; }));
    }
  }
}

TEST(RoundHeader, ResetLeavesNothingAndKeepsItsMemory) {
  Random random(4);
  RoundHeader header = drawn(random, 64);
  const auto capacity = header.times.capacity();
  const auto* memory = header.times.data();
  header.reset(64);
  EXPECT_EQ(header, RoundHeader(64));
  EXPECT_TRUE(header.empty());
  EXPECT_EQ(header.times.capacity(), capacity);
  EXPECT_EQ(header.times.data(), memory);
  header.reset(130);
  EXPECT_EQ(header, RoundHeader(130));
}

TEST(RoundHeader, NumbersMeanWhatTheySay) {
  RoundHeader header(4);
  EXPECT_EQ(header.max_staleness(9), 0u);
  header.fresh.insert(0);
  header.stale.insert(2);
  header.batches = 3;
  header.oldest_base = 4;
  header.sum_of_bases = 4 + 6 + 7;
  EXPECT_EQ(header.contributors(), 2);
  EXPECT_EQ(header.max_staleness(7), 3u);
  EXPECT_EQ(header.total_staleness(7), 4u);
}

TEST(RoundHeader, TheCompactFormKeepsCountsSumsOldestBaseAndWhoHasDrained) {
  Random random(7);
  for (int ranks : kSizes) {
    for (int i = 0; i < 50; ++i) {
      const RoundHeader named = drawn(random, ranks);
      RoundHeader header = named;
      header.forget_names();
      EXPECT_EQ(header.names_ranks(), named.arrived.empty() && named.empty());
      EXPECT_EQ(header.num_arrived(), named.num_arrived());
      EXPECT_EQ(header.num_fresh(), named.num_fresh());
      EXPECT_EQ(header.num_stale(), named.num_stale());
      EXPECT_EQ(header.contributors(), named.contributors());
      EXPECT_EQ(header.empty(), named.empty());
      EXPECT_EQ(header.drained, named.drained);
      EXPECT_EQ(header.batches, named.batches);
      EXPECT_EQ(header.samples, named.samples);
      EXPECT_EQ(header.oldest_base, named.oldest_base);
      EXPECT_EQ(header.sum_of_bases, named.sum_of_bases);
      EXPECT_TRUE(header.arrived.empty() && header.fresh.empty() && header.stale.empty() && header.times.empty());
      EXPECT_LE(header.wire_bytes(), RoundHeader::max_wire_bytes(ranks, RoundHeader::Names::none));
      EXPECT_LE(named.wire_bytes(), RoundHeader::max_wire_bytes(ranks, RoundHeader::Names::times));
      RoundHeader copy;
      ASSERT_TRUE(copy.read(written(header), ranks));
      EXPECT_EQ(copy, header);
    }
  }
}

TEST(RoundHeader, FormsMergeAndCountEveryRank) {
  Random random(8);
  for (int ranks : {2, 65, 130}) {
    const RoundHeader a = drawn(random, ranks, [](int rank) { return rank % 2 == 0; });
    const RoundHeader b = drawn(random, ranks, [](int rank) { return rank % 2 != 0; });
    RoundHeader compact = b;
    compact.forget_names();
    const RoundHeader both = merged(a, compact);
    EXPECT_EQ(both, merged(compact, a));
    EXPECT_EQ(both.contributors(), a.contributors() + b.contributors());
    EXPECT_EQ(both.num_arrived(), a.num_arrived() + b.num_arrived());
    EXPECT_EQ(both.times, a.times);
    RoundHeader copy;
    ASSERT_TRUE(copy.read(written(both), ranks));
    EXPECT_EQ(copy, both);
  }
}

/// What transports carry beside a message is bounded.
TEST(RoundHeader, TheCompactFormOf1024RanksIsShort) {
  RoundHeader header(1024);
  for (int rank = 0; rank < 1024; ++rank) {
    header.arrived.insert(rank);
    header.drained.insert(rank);
    header.fresh.insert(rank);
    header.times.push_back({static_cast<std::uint16_t>(rank), 0, 1, 1, 1});
  }
  EXPECT_EQ(header.wire_bytes(), 40u + 3 * 128 + 1024 * 16);
  header.forget_names();
  EXPECT_EQ(header.wire_bytes(), 40u + 16 + 128);
}

/// Where members change messages name all of so many, too.
TEST(RoundHeader, WithoutTimesEntriesOfManyRanksAreShort) {
  Random random(9);
  RoundHeader header(1024);
  for (int rank = 0; rank < 1024; ++rank) {
    header.arrived.insert(rank);
    header.fresh.insert(rank);
    header.times.push_back({static_cast<std::uint16_t>(rank), static_cast<std::uint16_t>(rank % 7), 1, 1, 1});
  }
  header.forget_all_but(RoundHeader::Names::batches);
  EXPECT_EQ(header.wire_bytes(), 40u + 2 * 128 + 1024 * 4);
  EXPECT_EQ(RoundHeader::max_wire_bytes(1024, RoundHeader::Names::batches), 56u + 4 * 128 + 1024 * 4);
  RoundHeader copy;
  ASSERT_TRUE(copy.read(written(header), 1024));
  EXPECT_EQ(copy, header);
  EXPECT_EQ(copy.times[9].batches, 2);

  for (const int ranks : {256, 257}) {
    RoundHeader drawn_header = drawn(random, ranks);
    RoundHeader without = drawn_header;
    without.forget_all_but(RoundHeader::Names::batches);
    const std::size_t saved = ranks > RoundHeader::kMaxNamedRanks ? 12 * drawn_header.times.size() : 0;
    EXPECT_EQ(without.wire_bytes() + saved, drawn_header.wire_bytes());
    ASSERT_TRUE(copy.read(written(without), ranks));
    EXPECT_EQ(copy, without);
    EXPECT_EQ(copy.fresh, drawn_header.fresh);
  }
}

TEST(RoundHeader, EntriesOfTheOtherLengthAreRefused) {
  RoundHeader copy, header(300);
  header.times = {{0, 1, 1, 0, 0}, {299, 2, 0, 0, 0}};
  auto bytes = written(header);
  ASSERT_TRUE(copy.read(bytes, 300));
  EXPECT_TRUE(copy.read(bytes, 301)) << "the same words";
  std::fill(bytes.end() - 28, bytes.end() - 16, std::byte{0});  // the times of the first
  EXPECT_FALSE(copy.read(bytes, 300)) << "none has a time: they have to be short";
  header.forget_all_but(RoundHeader::Names::batches);
  ASSERT_TRUE(copy.read(written(header), 300));
  bytes = written(header);
  bytes.resize(bytes.size() - 4);
  EXPECT_TRUE(copy.read(bytes, 300)) << "one entry less";
  bytes.resize(bytes.size() - 4);
  EXPECT_FALSE(copy.read(bytes, 300)) << "it says that there are some";
}

TEST(RoundHeader, MoreUnnamedRanksThanThereAreAreRefused) {
  RoundHeader copy;
  const auto refused = [&](RoundHeader::Unnamed unnamed) {
    RoundHeader header(4);
    header.arrived.insert(0);
    header.fresh.insert(1);
    header.unnamed = unnamed;
    return !copy.read(written(header), 4);
  };
  EXPECT_FALSE(refused({3, 1, 2}));
  EXPECT_TRUE(refused({4, 0, 0}));
  EXPECT_TRUE(refused({0, 2, 2}));
  EXPECT_TRUE(refused({0, 0, 0xffffffff}));
}

TEST(RoundHeader, EveryWrongLengthIsRefused) {
  Random random(5);
  for (int ranks : {3, 65}) {
    RoundHeader header(ranks);
    header.times = {{0, 0, 1, 2, 3}, {2, 0, 1, 2, 3}};
    auto bytes = written(header);
    RoundHeader copy;
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      const bool whole_times = length + 16 == bytes.size() || length + 32 == bytes.size();
      EXPECT_EQ(copy.read(std::span(bytes).first(length), ranks), whole_times) << length;
    }
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(copy.read(bytes, ranks));
  }
}

TEST(RoundHeader, RanksThatCannotBeAreRefused) {
  RoundHeader copy;
  const auto refused = [&](std::vector<RankTimes> times) {
    RoundHeader header(3);
    header.times = std::move(times);
    return !copy.read(written(header), 3);
  };
  EXPECT_FALSE(refused({{0, 0, 1, 1, 1}, {1, 0, 1, 1, 1}, {2, 0, 1, 1, 1}}));
  EXPECT_TRUE(refused({{3, 0, 1, 1, 1}}));
  EXPECT_TRUE(refused({{std::numeric_limits<std::uint16_t>::max(), 0, 1, 1, 1}}));
  EXPECT_TRUE(refused({{1, 0, 1, 1, 1}, {0, 0, 1, 1, 1}}));
  EXPECT_TRUE(refused({{1, 0, 1, 1, 1}, {1, 0, 1, 1, 1}}));
}

TEST(RoundHeader, SetsThatCannotBeAreRefused) {
  RoundHeader copy, header(3);
  header.drained.word(0) = 0b1000;
  EXPECT_FALSE(copy.read(written(header), 3));
  header.drained.word(0) = 0b111;
  EXPECT_TRUE(copy.read(written(header), 3));
  header.fresh.insert(1);
  header.stale.insert(1);
  EXPECT_FALSE(copy.read(written(header), 3));

  RoundHeader full(64);
  for (int rank = 0; rank < 64; ++rank) full.arrived.insert(rank);
  EXPECT_TRUE(copy.read(written(full), 64));
  EXPECT_FALSE(copy.read(written(full), 63));
}

TEST(RoundHeader, AnyBytesAreReadOrRefusedAndARefusalChangesNothing) {
  Random random(6);
  int taken = 0;
  for (int i = 0; i < 20000; ++i) {
    const int ranks = kSizes[random.below(std::size(kSizes))];
    RoundHeader drawn_header = drawn(random, ranks);
    if (random.chance(0.3)) drawn_header.forget_names();
    if (random.chance(0.3)) drawn_header.forget_all_but(RoundHeader::Names::batches);
    auto bytes = written(drawn_header);
    for (auto flips = random.below(4); flips > 0; --flips) {
      bytes[random.below(bytes.size())] ^= static_cast<std::byte>(1u << random.below(8));
    }
    const RoundHeader before = drawn(random, ranks);
    RoundHeader header = before;
    if (header.read(bytes, ranks)) {
      ++taken;
      const auto again = written(header);
      ASSERT_TRUE(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
    } else {
      ASSERT_EQ(header, before);
    }
  }
  EXPECT_GT(taken, 5000);
}

}  // namespace
}  // namespace stretto
