#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "command/statistics/comparison.h"

namespace stretto::command {

/// The content of one or more files of `bench allreduce --csv`; contenders of samples are indices of `libraries`, and
/// the two values of a reading are microseconds and bus bandwidth.
struct MeasuredAllreduces {
  std::vector<std::string> libraries;
  std::vector<Sample> samples;

  /// Adds the content of a file. Throws UsageError that names `file` and the malformed line.
  void add(const std::string& file, const std::string& csv);
  /// Medians and intervals, a line each: library,ranks,bytes,microseconds,low,high,gb_per_s.
  std::string medians_csv() const;
};

}  // namespace stretto::command
