#include "command/bench/limits/limits.h"

#include <gtest/gtest.h>

#include "stretto/base/machine/cores.h"

namespace stretto::command {
namespace {

using namespace std::chrono_literals;

TEST(Limits, AreFinite) {
  const std::vector<std::uint64_t> sizes = {4096};
  const std::vector<int> sources = {1, 4};
  std::vector<Limit> limits = memory_limits(sizes, sources);
  const std::size_t cores = usable_cores().size() > 1 ? 2 : 1;
  EXPECT_EQ(limits.size(), 3 * cores + 2);
  for (Limit& limit : handoff_limits()) limits.push_back(std::move(limit));
  EXPECT_EQ(limits.size(), 3 * cores + 2 + 2 * cores);
  const std::vector<int> before = usable_cores();
  for (const Limit& limit : limits) {
    const double value = limit.measure(1ms);
    EXPECT_GT(value, 0) << limit.name;
    EXPECT_LT(value, 1e9) << limit.name;
  }
  EXPECT_EQ(usable_cores(), before) << "measuring leaves no thread of ours on one core";
}

TEST(SumSources, IsTheSum) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{10'001}}) {
    std::vector<std::vector<float>> memory;
    for (int k = 0; k < 3; ++k) {
      memory.emplace_back(count);
      for (std::size_t i = 0; i < count; ++i)
        memory.back()[i] = static_cast<float>(i % 100 + static_cast<std::size_t>(k));
    }
    const std::vector<std::span<const float>> sources(memory.begin(), memory.end());
    std::vector<float> sum(count, -1.0f);
    sum_sources(sum, sources);
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(sum[i], static_cast<float>(3 * (i % 100) + 3)) << i;
    sum_sources(sum, std::span(sources).first(1));
    EXPECT_EQ(sum, memory[0]);
  }
}

}  // namespace
}  // namespace stretto::command
