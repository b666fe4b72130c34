#include "stretto/ordering/runtime/fused_sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "stretto/base/random.h"
#include "stretto/ordering/testing/part_job.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using FusedJob = PartJob<FusedSequence>;

std::byte* address_of(std::vector<std::int64_t>& numbers) {
  return reinterpret_cast<std::byte*>(numbers.data());
}

/// What a rank brings to a buffer; of the shapes some are empty, some large enough for another schedule.
struct Shared {
  std::vector<std::int64_t> mine, sum;
};

std::uint64_t count_of(SequenceNumber number) {
  constexpr std::uint64_t kCounts[] = {5, 0, 1, 20000, 64};
  return kCounts[number % 5];
}
bool brings(int rank, SequenceNumber number) {
  return (static_cast<SequenceNumber>(rank) + number) % 4 != 0;
}
std::int64_t number_of(int rank, SequenceNumber number, std::size_t i) {
  return rank * 1'000'000 + static_cast<std::int64_t>(number * 1000 + i);
}

class Sequences : public ::testing::TestWithParam<std::vector<int>> {};

INSTANTIATE_TEST_SUITE_P(Members, Sequences,
                         ::testing::Values(std::vector{0}, std::vector{0, 1}, std::vector{0, 1, 2},
                                           std::vector{1, 3, 4}, std::vector{0, 1, 2, 3, 4},
                                           std::vector{0, 1, 2, 3, 4, 5, 6}, std::vector{0, 1, 2, 3, 4, 5, 6, 7}));

TEST_P(Sequences, HaveSeveralBuffersUnderWayAndHandThemOverInOrder) {
  const std::vector<int> members = GetParam();
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    FusedJob job(8, members, seed);
    Random random(seed);
    constexpr SequenceNumber kBuffers = 17;
    std::vector<std::vector<Shared>> memory(8, std::vector<Shared>(kBuffers));
    std::vector<SequenceNumber> begun(8, 0), taken(8, 0);
    const auto begin = [&](int rank) {
      const SequenceNumber number = begun[static_cast<std::size_t>(rank)]++;
      Shared& shared = memory[static_cast<std::size_t>(rank)][number];
      shared.mine.resize(count_of(number) + 1);
      shared.sum.assign(count_of(number) + 1, -1);
      for (std::size_t i = 0; i < count_of(number); ++i) shared.mine[i] = number_of(rank, number, i);
      RoundHeader header(8);
      if (brings(rank, number)) header.fresh.insert(rank);
      job.part(rank).start({.number = number,
                            .sequence_hash = number * 77,
                            .type = DataType::int64,
                            .count = count_of(number),
                            .brings = brings(rank, number),
                            .parts = {{address_of(shared.mine), nullptr, count_of(number) * 8}},
                            .sum = address_of(shared.sum),
                            .header = header});
    };
    const auto expect = [&](int rank, const FusedResult& result) {
      const SequenceNumber number = taken[static_cast<std::size_t>(rank)]++;
      ASSERT_EQ(result.number, number);
      std::vector<int> some;
      for (const int member : members) {
        if (brings(member, number)) some.push_back(member);
      }
      EXPECT_EQ(result.header.fresh.members(), some);
      EXPECT_EQ(result.present, !some.empty() && count_of(number) > 0) << number;
      const Shared& shared = memory[static_cast<std::size_t>(rank)][number];
      for (std::size_t i = 0; i < count_of(number) && result.present; ++i) {
        std::int64_t sum = 0;
        for (const int member : some) sum += number_of(member, number, i);
        ASSERT_EQ(shared.sum[i], sum) << number << '[' << i << ']';
      }
      EXPECT_EQ(shared.sum.back(), -1);
    };
    const std::function<void(int)> go_on = [&](int rank) {
      const auto at = static_cast<std::size_t>(rank);
      while (const auto result = job.part(rank).take_result()) expect(rank, *result);
      if (begun[at] < kBuffers && begun[at] - taken[at] < 4) begin(rank);
      job.step(rank);
      if (taken[at] < kBuffers) {
        job.cluster.after(Duration(static_cast<std::int64_t>(random.below(100'000))), rank, [&, rank] { go_on(rank); });
      }
    };
    for (const int rank : members) job.cluster.after(1us, rank, [&, rank] { go_on(rank); });
    job.run();
    for (const int rank : members) {
      EXPECT_EQ(taken[static_cast<std::size_t>(rank)], kBuffers);
      EXPECT_FALSE(job.failure(rank).failed());
    }
  }
}

TEST(Sequences, MoreShapesThanSchedulesAreKept) {
  FusedJob job(2, {0, 1}, 1);
  std::vector<std::int64_t> mine(1000, 2), sums[2] = {std::vector<std::int64_t>(1000), std::vector<std::int64_t>(1000)};
  for (SequenceNumber number = 0; number < 900; ++number) {
    // Every shape twice: the second time it is known, or has been forgotten.
    const std::uint64_t count = 1 + number % 450;
    for (int rank = 0; rank < 2; ++rank) {
      job.part(rank).start({.number = number,
                            .type = DataType::int64,
                            .count = count,
                            .brings = true,
                            .parts = {{address_of(mine), address_of(sums[rank]), count * 8}},
                            .header = RoundHeader(2)});
    }
    job.run();
    for (int rank = 0; rank < 2; ++rank) {
      ASSERT_TRUE(job.part(rank).take_result().has_value());
      ASSERT_EQ(sums[rank][count - 1], 4);
    }
  }
}

/// Starts buffer `number` of one rank, with tensors that have as many elements as their names have letters.
void start(FusedJob& job, int rank, SequenceNumber number, std::uint64_t hash, std::string tensors,
           std::vector<std::int64_t>& memory) {
  job.part(rank).start({.number = number,
                        .sequence_hash = hash,
                        .type = DataType::int64,
                        .count = 3,
                        .brings = true,
                        .parts = {{address_of(memory), address_of(memory) + 24, 24}},
                        .header = RoundHeader(job.cluster.size()),
                        .composition = std::make_shared<const std::string>(std::move(tensors))});
}

TEST(Sequences, ThatDifferFailOnEveryRankAndBothAreNamed) {
  for (const int ranks : {2, 3, 4, 7}) {
    for (int odd = 0; odd < ranks; ++odd) {
      std::vector<int> members(static_cast<std::size_t>(ranks));
      std::iota(members.begin(), members.end(), 0);
      FusedJob job(ranks, members, static_cast<std::uint64_t>(odd));
      std::vector<std::vector<std::int64_t>> memory(static_cast<std::size_t>(ranks), std::vector<std::int64_t>(6));
      for (int rank = 0; rank < ranks; ++rank) {
        auto& mine = memory[static_cast<std::size_t>(rank)];
        start(job, rank, 0, 5, "same\n", mine);
        start(job, rank, 1, rank == odd ? 6 : 7, rank == odd ? "a\nb\n" : "a\nc\n", mine);
        start(job, rank, 2, rank == odd ? 8 : 9, "same again\n", mine);
      }
      job.run();
      for (int rank = 0; rank < ranks; ++rank) {
        ASSERT_TRUE(job.failure(rank).failed()) << rank << " of " << ranks << ", odd " << odd;
        const Error error = *job.failure(rank).error();
        EXPECT_EQ(error.code, Errc::bad_input);
        EXPECT_THAT(error.message, AllOf(HasSubstr("set 1: buffer 1 is not the same on every rank: at place 1"),
                                         HasSubstr(text("rank ", odd, " has b")), HasSubstr(" has c")));
      }
    }
  }
}

TEST(Sequences, AreOfOneLengthEach) {
  FusedJob job(2, {0, 1}, 1);
  std::vector<std::int64_t> memory(6);
  start(job, 0, 0, 5, "a\nb\n", memory);
  start(job, 1, 0, 6, "a\n", memory);
  job.run();
  ASSERT_TRUE(job.failure(0).failed());
  EXPECT_THAT(job.failure(0).error()->message, HasSubstr(" has nothing"));
  EXPECT_THAT(job.failure(0).error()->message, HasSubstr(" has b"));
}

TEST(Sequences, SayForWhomTheyWait) {
  FusedJob job(2, {0, 1}, 1);
  std::vector<std::int64_t> memory(12);
  start(job, 0, 0, 5, "a\n", memory);
  job.run();
  EXPECT_TRUE(job.part(0).lacks(1));
  EXPECT_FALSE(job.part(1).lacks(0));
}

}  // namespace
}  // namespace stretto
