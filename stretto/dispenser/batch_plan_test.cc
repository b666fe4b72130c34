#include "stretto/dispenser/batch_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "stretto/base/error.h"
#include "stretto/base/random.h"

namespace stretto {
namespace {

using ::testing::HasSubstr;

std::vector<std::uint32_t> drawn_lengths(Random& random, std::uint64_t samples) {
  std::vector<std::uint32_t> lengths(samples);
  for (auto& length : lengths) length = static_cast<std::uint32_t>(random.between(7, 26));
  return lengths;
}

std::vector<std::uint32_t> copy(const BatchRef& batch) {
  return {batch.samples.begin(), batch.samples.end()};
}

/// All samples of the job in order of batches.
std::vector<std::uint32_t> row_of(BatchPlan& plan) {
  std::vector<std::uint32_t> row;
  for (std::uint64_t i = 0; i < plan.num_batches(); ++i) {
    const auto batch = copy(plan.batch(i));
    row.insert(row.end(), batch.begin(), batch.end());
  }
  return row;
}

TEST(BatchPlan, EverySampleOnceAnEpochAndOnlyTheLastBatchIsShort) {
  Random random(1);
  for (int trial = 0; trial < 300; ++trial) {
    PlanOptions options{.samples = random.log_uniform(1, 300), .batch = static_cast<int>(random.log_uniform(1, 64))};
    options.epochs = random.log_uniform(1, 12);
    options.seed = random.bits();
    options.bucketed = random.chance(0.6);
    options.pool_batches = static_cast<int>(random.below(4));
    if (random.chance(0.7)) options.lengths = drawn_lengths(random, options.samples);
    BatchPlan plan(options);
    const auto batch = static_cast<std::uint64_t>(options.batch);
    ASSERT_EQ(plan.num_batches(), (options.epochs * options.samples + batch - 1) / batch);
    for (std::uint64_t i = 0; i + 1 < plan.num_batches(); ++i) ASSERT_EQ(plan.batch(i).samples.size(), batch);

    const auto row = row_of(plan);
    ASSERT_EQ(row.size(), options.epochs * options.samples);
    for (std::uint64_t epoch = 0; epoch < options.epochs; ++epoch) {
      const auto first = row.begin() + static_cast<std::ptrdiff_t>(epoch * options.samples);
      const std::set<std::uint32_t> seen(first, first + static_cast<std::ptrdiff_t>(options.samples));
      ASSERT_EQ(seen.size(), options.samples);
      ASSERT_EQ(*seen.rbegin(), options.samples - 1);
    }
  }
}

TEST(BatchPlan, TheOrderInWhichBatchesAreAskedForDoesNotMatter) {
  Random random(2);
  PlanOptions options{.samples = 101, .batch = 8, .epochs = 6, .seed = 3};
  options.lengths = drawn_lengths(random, options.samples);
  for (const bool bucketed : {false, true}) {
    options.bucketed = bucketed;
    BatchPlan forward(options), jumping(options);
    for (int i = 0; i < 500; ++i) {
      const auto sequence = random.below(forward.num_batches());
      ASSERT_EQ(copy(jumping.batch(sequence)), copy(forward.batch(sequence)));
    }
  }
}

TEST(BatchPlan, EpochsAndSeedsHaveTheirOwnOrders) {
  const PlanOptions options{.samples = 64, .batch = 64, .epochs = 3, .seed = 1};
  PlanOptions other = options;
  other.seed = 2;
  BatchPlan plan(options), second(other);
  const auto first = copy(plan.batch(0));
  EXPECT_NE(first, copy(plan.batch(1)));
  EXPECT_NE(first, copy(second.batch(0)));
  EXPECT_FALSE(std::is_sorted(first.begin(), first.end()));
}

TEST(BatchPlan, BatchesSayWhereTheyAre) {
  BatchPlan plan({.samples = 10, .batch = 4, .epochs = 3, .lengths = std::vector<std::uint32_t>(10, 5)});
  ASSERT_EQ(plan.num_batches(), 8u);
  const struct {
    std::uint64_t epoch, index, size;
  } expected[] = {{0, 0, 4}, {0, 1, 4}, {0, 2, 4}, {1, 0, 4}, {1, 1, 4}, {2, 0, 4}, {2, 1, 4}, {2, 2, 2}};
  for (std::uint64_t i = 0; i < 8; ++i) {
    const auto batch = plan.batch(i);
    EXPECT_EQ(batch.sequence, i);
    EXPECT_EQ(batch.epoch, expected[i].epoch) << i;
    EXPECT_EQ(batch.index, expected[i].index) << i;
    EXPECT_EQ(batch.samples.size(), expected[i].size) << i;
    EXPECT_EQ(batch.units, 5 * expected[i].size) << i;
  }
}

TEST(BatchPlan, StepsCountBatchesOfAllRanks) {
  BatchPlan plan({.samples = 10, .batch = 4, .ranks = 3, .steps = 5, .epochs = 1});
  EXPECT_EQ(plan.num_batches(), 15u);
  EXPECT_EQ(plan.batch(14).samples.size(), 4u);
}

TEST(BatchPlan, UnitsAreSamplesTimesTheLongest) {
  PlanOptions options{.samples = 3, .batch = 3, .epochs = 1, .lengths = {7, 26, 15}};
  EXPECT_EQ(BatchPlan(options).batch(0).units, 3u * 26u);
  options.lengths.clear();
  EXPECT_EQ(BatchPlan(options).batch(0).units, 3u);
}

TEST(BatchPlan, BucketsHaveSimilarLengthsAlsoAcrossEpochs) {
  Random random(4);
  PlanOptions options{.samples = 270, .batch = 4, .epochs = 40, .seed = 9};
  options.lengths = drawn_lengths(random, options.samples);
  const auto padding = [&](bool bucketed, bool borders_only) {
    options.bucketed = bucketed;
    BatchPlan plan(options);
    double padded = 0, real = 0;
    for (std::uint64_t i = 0; i < plan.num_batches(); ++i) {
      const bool border = (i + 1) * 4 > (i * 4 / 270 + 1) * 270;
      if (borders_only && !border) continue;
      const auto batch = plan.batch(i);
      padded += static_cast<double>(batch.units);
      for (const auto sample : batch.samples) real += options.lengths[sample];
    }
    return padded / real - 1;
  };
  EXPECT_GT(padding(false, false), 0.3);
  EXPECT_LT(padding(true, false), 0.02);
  EXPECT_LT(padding(true, true), 0.06);
}

TEST(BatchPlan, BucketsComeInRandomOrderWithRandomTies) {
  PlanOptions options{.samples = 400, .batch = 4, .epochs = 2, .seed = 5, .bucketed = true};
  options.lengths.assign(400, 9);
  for (std::size_t i = 0; i < 200; ++i) options.lengths[i] = 18;
  BatchPlan plan(options);
  std::vector<std::uint64_t> units;
  std::set<std::set<std::uint32_t>> first_epoch, second_epoch;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const auto batch = plan.batch(i);
    units.push_back(batch.units);
    (i < 100 ? first_epoch : second_epoch).emplace(batch.samples.begin(), batch.samples.end());
  }
  EXPECT_FALSE(std::is_sorted(units.begin(), units.begin() + 100));
  std::vector<std::set<std::uint32_t>> common;
  std::set_intersection(first_epoch.begin(), first_epoch.end(), second_epoch.begin(), second_epoch.end(),
                        std::back_inserter(common));
  EXPECT_LT(common.size(), 3u);
}

TEST(BatchPlan, SampledIsAFunctionOfSeedRankAndStep) {
  PlanOptions options{.samples = 1000, .batch = 32, .ranks = 4, .steps = 100, .seed = 6};
  BatchPlan plan(options), again(options);
  EXPECT_EQ(copy(plan.sampled(7, 2, 30)), copy(again.sampled(9, 2, 30)));
  EXPECT_NE(copy(plan.sampled(7, 2, 30)), copy(again.sampled(7, 3, 30)));
  EXPECT_NE(copy(plan.sampled(7, 2, 30)), copy(again.sampled(7, 2, 31)));
}

TEST(BatchPlan, SampledDrawsEverySampleEquallyOften) {
  Random random(7);
  PlanOptions options{.samples = 50, .batch = 8, .ranks = 2, .steps = 10000, .seed = 6};
  options.lengths = drawn_lengths(random, options.samples);
  for (const bool bucketed : {false, true}) {
    options.bucketed = bucketed;
    BatchPlan plan(options);
    std::vector<int> times(50);
    double padded = 0, real = 0;
    for (std::uint64_t step = 0; step < 10000; ++step) {
      const auto batch = plan.sampled(2 * step, 1, step);
      padded += static_cast<double>(batch.units);
      for (const auto sample : batch.samples) ++times[sample], real += options.lengths[sample];
    }
    // 1,600 expected; within a bucketed batch draws are not independent.
    for (const int n : times) EXPECT_NEAR(n, 1600, bucketed ? 400 : 200);
    EXPECT_EQ(padded / real < 1.2, bucketed);
  }
}

PlanOptions labelled(std::uint64_t samples) {
  PlanOptions options{.samples = samples, .batch = 4, .ranks = 8, .steps = 12, .seed = 3, .labels_a_rank = 3};
  for (std::uint32_t sample = 0; sample < samples; ++sample) options.labels.push_back(sample * 10 / 101 % 10);
  return options;
}

TEST(BatchPlan, APartIsGoneRoundInOverAndOver) {
  for (const bool bucketed : {false, true}) {
    PlanOptions options = labelled(101);
    options.bucketed = bucketed;
    for (std::uint32_t sample = 0; sample < 101; ++sample) options.lengths.push_back(1 + sample % 7);
    BatchPlan plan(options);
    std::set<std::uint32_t> of_all;
    for (int rank = 0; rank < 8; ++rank) {
      std::vector<std::uint32_t> row;
      for (std::uint64_t step = 0; step < 90; ++step) {
        const auto batch = copy(plan.of_part(step, rank, step));
        ASSERT_EQ(batch.size(), 4u);
        row.insert(row.end(), batch.begin(), batch.end());
      }
      const std::set<std::uint32_t> part(row.begin(), row.end());
      const auto size = static_cast<std::ptrdiff_t>(part.size());
      ASSERT_TRUE(size >= 10 && size <= 15) << size;
      for (std::ptrdiff_t pass = 0; pass < 20; ++pass) {
        const std::set<std::uint32_t> seen(row.begin() + pass * size, row.begin() + (pass + 1) * size);
        ASSERT_EQ(seen, part) << "rank " << rank << ", pass " << pass;
      }
      EXPECT_FALSE(std::equal(row.begin(), row.begin() + size, row.begin() + size));
      std::set<std::uint32_t> labels;
      for (const auto sample : part) labels.insert(options.labels[sample]);
      EXPECT_LE(labels.size(), 3u);
      for (const auto sample : part) EXPECT_TRUE(of_all.insert(sample).second) << "sample " << sample << " twice";
    }
    EXPECT_EQ(of_all.size(), 101u);
  }
}

TEST(BatchPlan, ABatchOfAPartIsAFunctionOfSeedRankAndStep) {
  const PlanOptions options = labelled(101);
  BatchPlan plan(options), again(options);
  const auto batch = copy(plan.of_part(7, 2, 30));
  (void)again.of_part(0, 5, 90);
  EXPECT_EQ(batch, copy(again.of_part(9, 2, 30)));
  EXPECT_NE(batch, copy(again.of_part(9, 2, 31)));
  EXPECT_EQ(plan.of_part(7, 2, 30).sequence, 7u);
  EXPECT_EQ(plan.of_part(7, 2, 30).step, 30u);
  PlanOptions other = options;
  other.seed = 4;
  EXPECT_NE(batch, copy(BatchPlan(other).of_part(7, 2, 30)));
}

TEST(BatchPlan, OnlyTheJobsLastBatchOfAPartIsShort) {
  PlanOptions options = labelled(101);
  options.steps = 0;
  options.epochs = 1;
  BatchPlan plan(options);
  ASSERT_EQ(plan.num_batches(), 26u);
  EXPECT_EQ(plan.of_part(24, 1, 3).samples.size(), 4u);
  EXPECT_EQ(plan.of_part(25, 1, 3).samples.size(), 1u);
}

std::string message(const PlanOptions& options) {
  try {
    BatchPlan plan(options);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(BatchPlan, MistakesAreNamed) {
  EXPECT_EQ(message({.samples = 3, .ranks = 8, .epochs = 1}),
            "data set of 3 samples for 8 ranks: expected at least one sample a rank; 3 ranks or fewer would work");
  EXPECT_EQ(message({.samples = 8, .ranks = 8, .epochs = 1}), "no error");
  EXPECT_THAT(message({.samples = 0, .epochs = 1}), HasSubstr("data set of 0 samples"));
  EXPECT_THAT(message({.samples = 9, .batch = 0, .epochs = 1}), HasSubstr("batch 0"));
  EXPECT_THAT(message({.samples = 9, .ranks = 0, .epochs = 1}), HasSubstr("ranks 0"));
  EXPECT_THAT(message({.samples = 9}), HasSubstr("0 steps and 0 epochs"));
  EXPECT_THAT(message({.samples = 9, .epochs = 1, .lengths = {1, 2}}), HasSubstr("2 lengths for 9 samples"));
  EXPECT_THAT(message({.samples = 9, .epochs = 1, .labels = {1, 2}, .labels_a_rank = 2}),
              HasSubstr("2 labels for 9 samples: expected one each"));
  EXPECT_THAT(message({.samples = 3, .epochs = 1, .labels = {1, 2, 3}, .labels_a_rank = 2}),
              HasSubstr("labels:3 would work"));
  EXPECT_THAT(message({.samples = 9, .epochs = ~std::uint64_t{0}}), HasSubstr("epochs: expected at most"));
  EXPECT_THAT(message({.samples = 9, .steps = ~std::uint64_t{0}}), HasSubstr("steps: expected at most"));
}

}  // namespace
}  // namespace stretto
