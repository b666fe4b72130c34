#include "command/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
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

// The continued fraction of the incomplete beta function by Lentz's method; converges fast for x < (a+1)/(a+b+2).
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  double c = 1;
  double d = 1 - (a + b) * x / (a + 1);
  d = 1 / (std::abs(d) < kTiny ? kTiny : d);
  double fraction = d;
  for (int m = 1; m <= 300; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double change = 0;
    for (const double term : {even, odd}) {
      d = 1 + term * d;
      d = 1 / (std::abs(d) < kTiny ? kTiny : d);
      c = 1 + term / c;
      if (std::abs(c) < kTiny) c = kTiny;
      change = c * d;
      fraction *= change;
    }
    if (std::abs(change - 1) < 1e-15) break;
  }
  return fraction;
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

double quantile(std::span<const double> values, double p) {
  if (values.empty()) return kNaN;
  const std::vector<double> ordered = sorted(values);
  const double position = p * static_cast<double>(ordered.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, ordered.size() - 1);
  return ordered[below] + (position - static_cast<double>(below)) * (ordered[above] - ordered[below]);
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

double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double student_t_cdf(double t, double degrees) {
  const double tail = incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t)) / 2;
  return t > 0 ? 1 - tail : tail;
}

double student_t_quantile(double p, double degrees) {
  if (p < 0.5) return -student_t_quantile(1 - p, degrees);
  double low = 0;
  double high = 1;
  while (student_t_cdf(high, degrees) < p) high *= 2;
  for (int i = 0; i < 200 && high - low > 1e-13 * high; ++i) {
    const double middle = (low + high) / 2;
    (student_t_cdf(middle, degrees) < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace stretto::command
