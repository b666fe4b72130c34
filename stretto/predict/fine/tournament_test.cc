#include "stretto/predict/fine/tournament.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "stretto/base/random.h"

namespace stretto {
namespace {

TEST(Tournament, HasNoMomentAtFirst) {
  for (const std::size_t slots : {1, 2, 3, 1000}) EXPECT_EQ(Tournament(slots).time(), Tournament::kNever);
}

TEST(Tournament, FindsTheEarliestOfAllAfterEveryChange) {
  Random random(7);
  for (const std::size_t slots : {1, 2, 5, 64, 77}) {
    Tournament tournament(slots);
    std::vector<std::tuple<double, std::uint64_t, std::size_t>> moments;
    for (std::size_t slot = 0; slot < slots; ++slot) moments.emplace_back(Tournament::kNever, 0, slot);
    for (int change = 0; change < 2000; ++change) {
      const std::size_t slot = random.below(slots);
      // Few values, so that many are equal; an order of its own for each slot, as callers give it.
      const double time = random.chance(0.1) ? Tournament::kNever : static_cast<double>(random.below(8));
      const std::uint64_t order = time == Tournament::kNever ? 0 : slots - slot;
      if (time == Tournament::kNever)
        tournament.clear(slot);
      else
        tournament.set(slot, time, order);
      moments[slot] = {time, order, slot};
      const auto earliest = *std::ranges::min_element(moments);
      ASSERT_EQ(tournament.time(), std::get<0>(earliest));
      if (tournament.time() != Tournament::kNever) {
        ASSERT_EQ(tournament.first(), std::get<2>(earliest));
      }
    }
  }
}

}  // namespace
}  // namespace stretto
