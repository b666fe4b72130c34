#include "workloads/hits.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <vector>

namespace stretto {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(Hits, APlaceIsTheNumberOfClassesBefore) {
  const std::array<float, 6> scores = {0.5F, -1, 3, 2, 0, 1};
  const std::array<std::size_t, 6> places = {3, 5, 0, 1, 4, 2};
  for (std::size_t label = 0; label < 6; ++label) EXPECT_EQ(place_of(scores, label), places[label]) << label;
}

TEST(Hits, OfEqualScoresTheSmallerNumberComesFirst) {
  const std::array<float, 4> scores = {1, 2, 1, 2};
  EXPECT_EQ(place_of(scores, 0), 2u);
  EXPECT_EQ(place_of(scores, 1), 0u);
  EXPECT_EQ(place_of(scores, 2), 3u);
  EXPECT_EQ(place_of(scores, 3), 1u);
}

TEST(Hits, AScoreThatIsNoNumberIsNeverRight) {
  const std::array<float, 3> one = {1, kNaN, 2};
  EXPECT_EQ(place_of(one, 0), 2u);
  EXPECT_EQ(place_of(one, 1), 3u);
  EXPECT_EQ(place_of(one, 2), 1u);
  Hits all(6);
  all.add(std::vector<float>(6, kNaN), std::array<std::int64_t, 1>{0});
  EXPECT_EQ(all.accuracy(), 0);
  EXPECT_EQ(all.top5(), 0);
}

// The same scores for eight samples: their labels come in each of the eight places once.
TEST(Hits, CountsFirstGuessesAndTheFirstFive) {
  std::vector<float> scores;
  for (int sample = 0; sample < 8; ++sample) scores.insert(scores.end(), {0, 7, 1, 6, 2, 5, 3, 4});
  const std::array<std::int64_t, 8> labels = {0, 1, 2, 3, 4, 5, 6, 7};
  Hits hits(8);
  hits.add(scores, labels);
  EXPECT_EQ(hits.accuracy(), 1.0 / 8);
  EXPECT_EQ(hits.top5(), 5.0 / 8);
  hits.add(std::span(scores).first(16), std::array<std::int64_t, 2>{1, 0});
  EXPECT_EQ(hits.accuracy(), 2.0 / 10);
  EXPECT_EQ(hits.top5(), 6.0 / 10);
}

TEST(Hits, FiveGuessesSayNothingOfFiveClasses) {
  Hits hits(5);
  hits.add(std::array<float, 5>{0, 0, 0, 0, 1}, std::array<std::int64_t, 1>{4});
  EXPECT_EQ(hits.accuracy(), 1);
  EXPECT_FALSE(hits.top5().has_value());
}

}  // namespace
}  // namespace stretto
