#include "stretto/train/recipes/round_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/train/testing/test_task.h"

namespace stretto {
namespace {

using testing::HasSubstr;

struct NotingRank {
  NotingRank(int rank, int ranks) : notes(rank, ranks, 2, 4) {}

  void apply(std::uint64_t round, double lr) { notes.applies(round, OptimizerOptions{lr, std::hash<double>()(lr)}); }
  std::vector<std::int64_t> written(std::uint64_t base, const LoopCounts& counts = {}) const {
    const auto task = linear_task()->start_rank({});
    std::vector<std::int64_t> numbers(notes.bucket().count, 77);
    notes.write(numbers, task->replica(), base, counts);
    return numbers;
  }
  RoundNotes notes;
};

std::vector<std::int64_t> operator+(std::vector<std::int64_t> a, const std::vector<std::int64_t>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

TEST(RoundNotes, CountsTheUsesOfEachParameter) {
  const NotingRank a(0, 3), b(2, 3);
  const auto sum = a.written(0) + b.written(0);
  EXPECT_EQ(std::vector<std::int64_t>(a.notes.uses(sum).begin(), a.notes.uses(sum).end()),
            (std::vector<std::int64_t>{2, 2}));
}

TEST(RoundNotes, AddsUpWhatTheLoopsCountBesideTheUses) {
  const NotingRank a(0, 3), b(2, 3);
  const auto sum = a.written(0, {1, 0, 0, 0, 0, 0, 0, 5}) + b.written(0, {2, 7}) + b.written(0);
  EXPECT_EQ(a.notes.counts(sum), (LoopCounts{3, 7, 0, 0, 0, 0, 0, 5}));
  EXPECT_EQ(std::vector<std::int64_t>(a.notes.uses(sum).begin(), a.notes.uses(sum).end()),
            (std::vector<std::int64_t>{3, 3}));
}

TEST(RoundNotes, TakesTheUsesOfABucketFromItsOwnRounds) {
  const NotingRank a(0, 3), b(2, 3);
  const auto task = linear_task()->start_rank({});  // a parameter in each of two buckets
  const auto uses = [&](std::vector<std::int64_t> sum, std::span<const std::int64_t> own) {
    a.notes.take_uses(sum, task->replica(), 1, own);
    return std::vector<std::int64_t>(a.notes.uses(sum).begin(), a.notes.uses(sum).end());
  };
  const auto one = a.written(0), two = a.written(0) + b.written(0);
  EXPECT_EQ(uses(one, two), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(uses(two, one), (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(uses(two, {}), (std::vector<std::int64_t>{2, 0}));
}

TEST(RoundNotes, NamesTheRankWhoseRateDiffers) {
  NotingRank a(0, 3), b(2, 3);
  for (std::uint64_t round = 0; round < 41; ++round) {
    a.apply(round, 0.05);
    b.apply(round, round == 40 ? 0.025 : 0.05);
  }
  EXPECT_EQ(a.notes.difference(a.written(40) + b.written(40)), std::nullopt);
  const auto said = a.notes.difference(a.written(41) + b.written(41));
  ASSERT_TRUE(said);
  EXPECT_THAT(*said, HasSubstr("rank 2 has lr 0.025 where rank 0 has 0.05 at round 40"));
}

TEST(RoundNotes, ARateThatFollowsFromTheRoundsIsNoDifferenceForARankThatIsBehind) {
  NotingRank ahead(0, 2), behind(1, 2);
  for (std::uint64_t round = 0; round < 30; ++round) {
    ahead.apply(round, 1.0 / static_cast<double>(round + 1));
    if (round < 26) behind.apply(round, 1.0 / static_cast<double>(round + 1));
  }
  EXPECT_EQ(ahead.notes.difference(behind.written(26) + ahead.written(30)), std::nullopt);
}

TEST(RoundNotes, DepositsThatWereAddedUpTellNothing) {
  NotingRank a(0, 2), b(1, 2);
  a.apply(0, 0.1);
  b.apply(0, 0.2);
  EXPECT_EQ(a.notes.difference(b.written(0) + b.written(1)), std::nullopt);
  EXPECT_TRUE(a.notes.difference(b.written(1)));
}

TEST(RoundNotes, NamesARoundThatBeganWithOtherWeights) {
  NotingRank a(0, 3), b(2, 3);
  for (std::uint64_t round = 0; round < 10; ++round) {
    const auto weights = [round](std::uint64_t mine) {
      return RoundNotes::compares(round) ? std::optional(mine + round) : std::nullopt;
    };
    a.notes.applies(round, OptimizerOptions{0.1, 1}, weights(7));
    b.notes.applies(round, OptimizerOptions{0.1, 1}, weights(round < 8 ? 7 : 5));
    const auto said = a.notes.difference(a.written(round + 1) + b.written(round + 1));
    EXPECT_EQ(said.has_value(), round >= 8) << round;
    EXPECT_THAT(said.value_or("rank 2 had other weights than rank 0 at the beginning of round 8"),
                HasSubstr("rank 2 had other weights than rank 0 at the beginning of round 8"));
  }
}

TEST(RoundNotes, ComparesWeightsOftenAtFirstAndThenRarely) {
  std::vector<std::uint64_t> compared;
  for (std::uint64_t round = 0; round < 200; ++round) {
    if (RoundNotes::compares(round)) compared.push_back(round);
  }
  EXPECT_EQ(compared, (std::vector<std::uint64_t>{1, 2, 4, 8, 16, 32, 64, 128, 192}));
}

TEST(RoundNotes, OtherOptionsThanTheRateAreNamedAsSuch) {
  NotingRank a(0, 2), b(1, 2);
  a.notes.applies(0, OptimizerOptions{0.1, 5});
  b.notes.applies(0, OptimizerOptions{0.1, 6});
  EXPECT_THAT(*a.notes.difference(b.written(1)),
              HasSubstr("rank 1 has had other options of the optimizer than rank 0"));
}

}  // namespace
}  // namespace stretto
