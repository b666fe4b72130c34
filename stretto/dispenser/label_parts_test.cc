#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "stretto/base/error.h"
#include "stretto/base/random.h"
#include "stretto/dispenser/batch_plan.h"

namespace stretto {
namespace {

using ::testing::HasSubstr;

std::vector<std::uint32_t> drawn_labels(Random& random, std::size_t samples, std::uint64_t kinds) {
  std::vector<std::uint32_t> labels(samples);
  for (auto& label : labels) label = static_cast<std::uint32_t>(100 + 7 * random.below(kinds));
  return labels;
}

std::size_t num_labels(const std::vector<std::uint32_t>& part, const std::vector<std::uint32_t>& labels) {
  std::set<std::uint32_t> seen;
  for (const auto sample : part) seen.insert(labels[sample]);
  return seen.size();
}

std::size_t smallest(const std::vector<std::vector<std::uint32_t>>& parts) {
  return std::ranges::min_element(parts, {}, [](const auto& part) { return part.size(); })->size();
}

std::size_t largest(const std::vector<std::vector<std::uint32_t>>& parts) {
  return std::ranges::max_element(parts, {}, [](const auto& part) { return part.size(); })->size();
}

std::string refusal(const std::vector<std::uint32_t>& labels, int ranks, int most) {
  try {
    parts_by_label(labels, ranks, most, 1);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(LabelParts, EverySampleIsInOneOfThemAndNoneHasMoreLabelsThanItMay) {
  Random random(1);
  int made = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const int ranks = static_cast<int>(random.log_uniform(1, 33));
    const auto samples = static_cast<std::size_t>(ranks) + random.below(500);
    const auto labels = drawn_labels(random, samples, 1 + random.below(12));
    const int most = static_cast<int>(random.between(1, 6));
    const std::uint64_t seed = random.bits();
    std::vector<std::vector<std::uint32_t>> parts;
    try {
      parts = parts_by_label(labels, ranks, most, seed);
    } catch (const UsageError&) {
      continue;
    }
    ++made;
    ASSERT_EQ(parts.size(), static_cast<std::size_t>(ranks));
    std::vector<int> times(samples);
    for (const auto& part : parts) {
      for (const auto sample : part) ++times[sample];
      ASSERT_LE(num_labels(part, labels), static_cast<std::size_t>(most));
    }
    ASSERT_EQ(times, std::vector<int>(samples, 1));
    ASSERT_LE(largest(parts), smallest(parts) + static_cast<std::size_t>(std::max(1, most - 1)));
    ASSERT_EQ(parts_by_label(labels, ranks, most, seed), parts);
  }
  EXPECT_GT(made, 100);
}

TEST(LabelParts, OfTenLabelsRanksSeeTwoOrThree) {
  std::vector<std::uint32_t> labels;
  for (std::uint32_t sample = 0; sample < 1440; ++sample) labels.push_back(sample % 10);
  for (const int ranks : {16, 64}) {
    const auto parts = parts_by_label(labels, ranks, 3, 5);
    EXPECT_LE(largest(parts), smallest(parts) + 2);
    for (const auto& part : parts) {
      EXPECT_GE(num_labels(part, labels), 2u);
      EXPECT_LE(num_labels(part, labels), 3u);
    }
    EXPECT_NE(parts, parts_by_label(labels, ranks, 3, 6));
  }
}

TEST(LabelParts, FewRanksMustSeeManyLabels) {
  const std::vector<std::uint32_t> labels = {0, 0, 1, 1, 2, 2, 3, 3};
  EXPECT_EQ(refusal(labels, 1, 3),
            "data labels:3 on 1 ranks: expected more labels a rank, since each sample belongs to some rank; labels:4 "
            "would work");
  EXPECT_THAT(refusal(labels, 2, 1), HasSubstr("labels:2 would work"));
  EXPECT_EQ(refusal(labels, 2, 2), "no error");
  EXPECT_EQ(refusal(labels, 4, 1), "no error");
}

TEST(LabelParts, AreOfTheSeedToTheBit) {
  const std::vector<std::uint32_t> labels = {0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2};
  const auto parts = parts_by_label(labels, 3, 2, 1);
  EXPECT_EQ(parts, parts_by_label(labels, 3, 2, 1)) << "no state is left";
  for (const auto& part : parts) {
    EXPECT_EQ(part.size(), 4u);
    EXPECT_EQ(num_labels(part, labels), 1u) << "three pieces of four samples, each of one label";
  }
}

}  // namespace
}  // namespace stretto
