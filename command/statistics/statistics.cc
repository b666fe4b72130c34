#include "command/statistics/statistics.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>
#include <vector>

#include "stretto/base/error.h"

namespace stretto::command {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::vector<double> sorted(std::span<const double> values) {
  std::vector<double> out(values.begin(), values.end());
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

double mean(std::span<const double> values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double standard_deviation(std::span<const double> values) {
  if (values.size() < 2) return kNaN;
  const double m = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - m) * (value - m);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

double median(std::span<const double> values) {
  return quantile(values, 0.5);
}

Interval mean_interval(std::span<const double> values, double confidence) {
  const double m = mean(values);
  if (values.size() < 2) return {m, kNaN, kNaN};
  const auto n = static_cast<double>(values.size());
  const double half = student_t_quantile(0.5 + confidence / 2, n - 1) * standard_deviation(values) / std::sqrt(n);
  return {m, m - half, m + half};
}

Interval paired_interval(std::span<const double> a, std::span<const double> b, double confidence) {
  STRETTO_CHECK(a.size() == b.size(), a.size(), " and ", b.size());
  std::vector<double> differences(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) differences[i] = b[i] - a[i];
  return mean_interval(differences, confidence);
}

Interval median_interval(std::span<const double> values, double confidence) {
  if (values.empty()) return {kNaN, kNaN, kNaN};
  const std::vector<double> ordered = sorted(values);
  const std::size_t n = ordered.size();
  // The largest k such that fewer than k of n fall below the median with probability (1 − confidence) / 2 at most.
  std::size_t k = 0;
  double below = 0;
  for (double term = std::pow(0.5, static_cast<double>(n)); k < n / 2; ++k) {
    below += term;
    if (below > (1 - confidence) / 2) break;
    term *= static_cast<double>(n - k) / static_cast<double>(k + 1);
  }
  const std::size_t low = k == 0 ? 0 : k - 1;
  return {median(values), ordered[low], ordered[n - 1 - low]};
}

double ks_distance(std::vector<double> a, std::vector<double> b, double apart) {
  std::ranges::sort(a);
  std::ranges::sort(b);
  const auto share_up_to = [](const std::vector<double>& sorted, double value) {
    return static_cast<double>(std::ranges::upper_bound(sorted, value) - sorted.begin()) /
           static_cast<double>(sorted.size());
  };
  double largest = 0;
  for (const auto& [of, other] : {std::tie(a, b), std::tie(b, a)}) {
    for (const double value : of) {
      largest = std::max(largest, share_up_to(of, value) - share_up_to(other, value * (1 + apart)));
    }
  }
  return largest;
}

double student_t_quantile(double p, double degrees) {
  return boost::math::quantile(boost::math::students_t(degrees), p);
}

}  // namespace stretto::command
