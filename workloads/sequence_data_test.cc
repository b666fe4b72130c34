#include "workloads/sequence_data.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numbers>

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

Sequences two_channels(std::vector<float> values, std::vector<std::size_t> offsets) {
  Sequences out;
  out.channels = 2;
  out.classes = 1;
  out.values = std::move(values);
  out.offsets = std::move(offsets);
  out.labels.resize(out.offsets.size() - 1);
  return out;
}

TEST(Standardize, GivesTrainMeanZeroAndDeviationOneAndTestTheSameScale) {
  Sequences train = two_channels({1, 7, 3, 7, 5, 7, 7, 7}, {0, 1, 4});
  Sequences test = two_channels({4, 8}, {0, 1});
  standardize(train, test);
  const float unit = 1 / std::sqrt(5.0F);  // of 1, 3, 5, 7: mean 4, variance 5
  EXPECT_THAT(train.values,
              Pointwise(testing::FloatNear(1e-6F), {-3 * unit, 0.0F, -unit, 0.0F, unit, 0.0F, 3 * unit, 0.0F}));
  EXPECT_THAT(test.values, ElementsAre(FloatNear(0, 1e-6F), FloatNear(1, 1e-6F)));
}

Sequences wave(std::vector<float> values) {
  Sequences out;
  out.channels = 1;
  out.classes = 1;
  out.offsets.push_back(values.size());
  out.values = std::move(values);
  out.labels.push_back(0);
  return out;
}

TEST(LogSpectra, AToneShowsInItsBinOnly) {
  constexpr int kFrame = 40;
  std::vector<float> values;
  for (int n = 0; n < 2 * kFrame; ++n)
    values.push_back(static_cast<float>(3 * std::cos(2 * std::numbers::pi * 5 * n / kFrame)));
  const Sequences spectra = log_spectra(wave(values), kFrame, 1e-3);
  EXPECT_EQ(spectra.channels, 21);
  EXPECT_THAT(spectra.lengths(), ElementsAre(2));
  for (std::size_t i = 0; i < spectra.values.size(); ++i) {
    const double magnitude = i % 21 == 5 ? 1.5 : 0;
    EXPECT_NEAR(spectra.values[i], std::log(magnitude + 1e-3), 1e-3) << i;
  }
}

TEST(LogSpectra, TheLastFrameIsFilledUpWithZeros) {
  const Sequences spectra = log_spectra(wave({1, 1, 1, 1, 1}), 4, 1e-6);
  EXPECT_EQ(spectra.channels, 3);
  EXPECT_THAT(spectra.lengths(), ElementsAre(2));
  const float quarter = std::log(0.25F), nothing = std::log(1e-6F);
  EXPECT_THAT(spectra.values,
              Pointwise(testing::FloatNear(1e-4F), {0.0F, nothing, nothing, quarter, quarter, quarter}));
}

}  // namespace
}  // namespace stretto
