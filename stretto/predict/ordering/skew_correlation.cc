#include "stretto/predict/ordering/skew_correlation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "stretto/base/error.h"

namespace stretto {

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
    products_[lag - 1] += std::inner_product(mine.begin(), mine.end(), recent_[before].begin(), 0.0);
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
