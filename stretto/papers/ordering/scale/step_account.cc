#include "stretto/papers/ordering/scale/step_account.h"

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

namespace {

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

double OrderedSteps::mean_step() const {
  return mean_of(steps);
}

StepAccount::StepAccount(const OrderedJob& job, int warm_up, int steps)
    : job_(job), warm_up_(warm_up), steps_(steps), skew_(static_cast<std::size_t>(job.ranks)) {}

double StepAccount::issue(std::span<const double> ready, std::span<const double> issued) {
  const double last = std::ranges::max(issued);
  const double started = std::max(last, link_free_);
  link_free_ = started + job_.cluster.transfer(job_.groups[group_].bytes, job_.ranks);
  if (++group_ < job_.groups.size()) return link_free_;
  if (counting()) {
    const double mean_ready = mean_of(ready), mean_issued = mean_of(issued);
    sums_.steps.push_back(link_free_ - begin_);
    sums_.computing += mean_ready - begin_;
    sums_.overhead += mean_issued - mean_ready;
    sums_.waiting += std::max(0.0, last - mean_issued);  // a mean may be rounded above the largest
    sums_.transfer += link_free_ - last;
  }
  ++finished_;
  group_ = 0;
  begin_ = link_free_;
  return link_free_;
}

void StepAccount::synchronize(std::span<const double> arrivals) {
  if (!counting()) return;
  ++syncs_;
  skew_.add(arrivals);
}

OrderedSteps StepAccount::result() const {
  OrderedSteps out = sums_;
  const auto steps = static_cast<double>(steps_);
  for (double* sum : {&out.computing, &out.overhead, &out.waiting, &out.transfer}) *sum /= steps;
  out.processor = processor_ / steps / static_cast<double>(job_.ranks);
  out.syncs = syncs_ / steps;
  out.skew = skew_.mean_of_last();
  out.skew_correlation = skew_.at_lags();
  return out;
}

}  // namespace stretto
