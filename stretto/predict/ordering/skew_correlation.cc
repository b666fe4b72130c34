#include "stretto/predict/ordering/skew_correlation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "stretto/base/error.h"

namespace stretto {

namespace {

/// In several sums at once: one addition need not wait for the one before.
double product_of(const std::vector<double>& a, const std::vector<double>& b) {
  constexpr std::size_t kSums = 8;
  std::array<double, kSums> sums{};
  std::size_t i = 0;
  for (; i + kSums <= a.size(); i += kSums) {
    for (std::size_t k = 0; k < kSums; ++k) sums[k] += a[i + k] * b[i + k];
  }
  for (; i < a.size(); ++i) sums[0] += a[i] * b[i];
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace

SkewCorrelation::SkewCorrelation(std::size_t ranks) : ranks_(ranks), recent_(kLags + 1, std::vector<double>(ranks)) {}

void SkewCorrelation::add(std::span<const double> arrivals) {
  STRETTO_CHECK(arrivals.size() == ranks_, arrivals.size(), " arrivals of ", ranks_, " ranks");
  const double mean = std::accumulate(arrivals.begin(), arrivals.end(), 0.0) / static_cast<double>(ranks_);
  const std::size_t place = seen_ % (kLags + 1);
  std::vector<double>& mine = recent_[place];
  double squares = 0, last = 0;
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    mine[rank] = arrivals[rank] - mean;
    squares += mine[rank] * mine[rank];
    last = std::max(last, mine[rank]);
  }
  own_[place] = squares;
  last_ += last;
  for (std::size_t lag = 1; lag <= std::min(kLags, seen_); ++lag) {
    const std::size_t before = (seen_ - lag) % (kLags + 1);
    products_[lag - 1] += product_of(mine, recent_[before]);
    squares_[lag - 1] += own_[before];
    later_squares_[lag - 1] += squares;
  }
  ++seen_;
}

std::array<double, SkewCorrelation::kLags> SkewCorrelation::at_lags() const {
  std::array<double, kLags> out{};
  for (std::size_t lag = 0; lag < kLags; ++lag) {
    const double scale = std::sqrt(squares_[lag] * later_squares_[lag]);
    out[lag] = scale > 0 ? products_[lag] / scale : std::nan("");
  }
  return out;
}

}  // namespace stretto
