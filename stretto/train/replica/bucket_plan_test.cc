#include "stretto/train/replica/bucket_plan.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

ParameterSpec floats(std::uint64_t count) {
  return {.name = "p", .type = DataType::float32, .count = count};
}

TEST(BucketPlan, LaysParametersOutFromTheLastToTheFirst) {
  const std::vector<ParameterSpec> parameters{floats(10), floats(20), floats(30)};
  const BucketPlan plan = plan_buckets(parameters, 1 << 20);
  ASSERT_EQ(plan.buckets, (std::vector<BucketSpec>{{DataType::float32, 60}}));
  EXPECT_EQ(plan.placements[2].offset, 0u);
  EXPECT_EQ(plan.placements[1].offset, 30u);
  EXPECT_EQ(plan.placements[0].offset, 50u);
}

TEST(BucketPlan, OpensABucketWhereTheCapWouldBePassed) {
  const std::vector<ParameterSpec> parameters{floats(10), floats(20), floats(30)};
  const BucketPlan plan = plan_buckets(parameters, 50 * sizeof(float));
  ASSERT_EQ(plan.buckets, (std::vector<BucketSpec>{{DataType::float32, 50}, {DataType::float32, 10}}));
  EXPECT_EQ(plan.placements[0].bucket, 1);
  EXPECT_EQ(plan.placements[1].bucket, 0);
}

TEST(BucketPlan, GivesAParameterLargerThanTheCapABucketOfItsOwn) {
  const std::vector<ParameterSpec> parameters{floats(1), floats(1000), floats(2)};
  const BucketPlan plan = plan_buckets(parameters, 8);
  ASSERT_EQ(plan.buckets.size(), 3u);
  EXPECT_EQ(plan.buckets[1].count, 1000u);
}

TEST(BucketPlan, KeepsLayersApartWhereItIsAskedTo) {
  const auto named = [](const char* name, std::uint64_t count) {
    return ParameterSpec{.name = name, .type = DataType::float32, .count = count};
  };
  const std::vector<ParameterSpec> parameters{named("net.0.weight", 6), named("net.0.bias", 2),
                                              named("net.1.weight", 4), named("net.1.bias", 3), named("scale", 1)};
  const BucketPlan plan = plan_buckets(parameters, 1 << 20, true);
  EXPECT_EQ(plan.buckets,
            (std::vector<BucketSpec>{{DataType::float32, 1}, {DataType::float32, 7}, {DataType::float32, 8}}));
  EXPECT_EQ(plan.placements[0].bucket, 2);
  EXPECT_EQ(plan.placements[1].bucket, 2);
  EXPECT_EQ(plan.placements[4].bucket, 0);
  EXPECT_EQ(plan_buckets(parameters, 4 * sizeof(float), true).buckets.size(), 5u) << "no larger than the cap";
}

TEST(BucketPlan, AlignsParametersWhereItIsAskedTo) {
  const std::vector<ParameterSpec> parameters{
      floats(5), {.name = "d", .type = DataType::float64, .count = 3}, floats(17), floats(1)};
  const BucketPlan plan = plan_buckets(parameters, 1 << 20, false, 64);
  EXPECT_EQ(plan.buckets, (std::vector<BucketSpec>{{DataType::float32, 53}, {DataType::float64, 3}}));
  EXPECT_EQ(plan.placements[3].offset, 0u);
  EXPECT_EQ(plan.placements[2].offset, 16u);
  EXPECT_EQ(plan.placements[0].offset, 48u);
  EXPECT_EQ(plan_buckets(parameters, 33 * sizeof(float), false, 64).buckets.size(), 3u);
}

TEST(BucketPlan, KeepsTypesApart) {
  const std::vector<ParameterSpec> parameters{
      floats(4), {.name = "d", .type = DataType::float64, .count = 3}, floats(5)};
  const BucketPlan plan = plan_buckets(parameters, 1 << 20);
  EXPECT_EQ(plan.buckets, (std::vector<BucketSpec>{{DataType::float32, 9}, {DataType::float64, 3}}));
}

TEST(BucketPlan, KeepsNormsOfFloatApartFromLayersOfHalves) {
  const auto layer = [](DataType type, std::uint64_t count) {
    return ParameterSpec{.name = "p", .type = type, .count = count};
  };
  const std::vector<ParameterSpec> parameters{layer(DataType::bfloat16, 6), layer(DataType::float32, 2),
                                              layer(DataType::bfloat16, 4), layer(DataType::float32, 2),
                                              layer(DataType::float16, 3)};
  const BucketPlan plan = plan_buckets(parameters, 20);
  EXPECT_EQ(plan.buckets,
            (std::vector<BucketSpec>{{DataType::float16, 3}, {DataType::float32, 4}, {DataType::bfloat16, 10}}));
  EXPECT_EQ(plan.placements[0].bucket, 2);
  EXPECT_EQ(plan.placements[0].offset, 4u);
  EXPECT_EQ(plan_buckets(parameters, 19).buckets.size(), 4u) << "a number has two bytes";
}

TEST(BucketPlan, LeavesOutWhatIsNotTrainedAndTakesEmptyParameters) {
  std::vector<ParameterSpec> parameters{floats(4), floats(0), floats(5)};
  parameters[0].trained = false;
  const BucketPlan plan = plan_buckets(parameters, 1 << 20);
  ASSERT_EQ(plan.buckets, (std::vector<BucketSpec>{{DataType::float32, 5}}));
  EXPECT_EQ(plan.placements[0].bucket, -1);
  EXPECT_EQ(plan.placements[1].bucket, 0);
  EXPECT_EQ(plan.placements[1].offset, 5u);
}

TEST(BucketPlan, OfNothingIsEmpty) {
  EXPECT_TRUE(plan_buckets({}, 1024).buckets.empty());
}

}  // namespace
}  // namespace stretto
