#pragma once

#include <span>
#include <vector>

#include "stretto/observe/quantile.h"

namespace stretto::command {

/// Statistics of repeated measurements. All but mean(), which is 0 then, are NaN where there are too few.
double mean(std::span<const double> values);
/// Of a sample: divides by n − 1. Requires n ≥ 2 for a number.
double standard_deviation(std::span<const double> values);
double median(std::span<const double> values);

/// An estimate and the range that holds the truth with the given confidence.
struct Interval {
  double estimate = 0;
  double low = 0;
  double high = 0;
};

/// Of the mean of `values`, by Student's t. With one value low and high are NaN.
Interval mean_interval(std::span<const double> values, double confidence = 0.95);
/// Of the mean of b[i] − a[i]. Requires: the same size.
Interval paired_interval(std::span<const double> a, std::span<const double> b, double confidence = 0.95);
/// Of the median, from the order statistics (binomial): holds for any distribution. With fewer than six values the
/// smallest and the largest, whatever their confidence.
Interval median_interval(std::span<const double> values, double confidence = 0.95);

/// The largest difference between the shares of `a` and of `b` that are not above some value (Kolmogorov and Smirnov).
/// `apart`: where all of the one may be longer by as large a share of themselves (as Lévy's distance, but of
/// logarithms). Requires: neither is empty, `apart` ≥ 0; where it is more, no value is negative.
double ks_distance(std::vector<double> a, std::vector<double> b, double apart = 0);

/// The t with P(T ≤ t) = p, of Student's t distribution. Requires: 0 < p < 1, degrees ≥ 1.
double student_t_quantile(double p, double degrees);

}  // namespace stretto::command
