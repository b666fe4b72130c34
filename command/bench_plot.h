#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "command/comparison.h"
#include "command/subcommand.h"

namespace stretto::command {

/// `stretto bench plot`: draws what `bench allreduce --csv` has written.
int run_bench_plot(const Arguments& arguments);

/// What one or more of those files have; contenders of samples are indices of `libraries`, and the two values of a
/// reading are microseconds and bus bandwidth.
struct MeasuredAllreduces {
  std::vector<std::string> libraries;
  std::vector<Sample> samples;

  /// Adds the content of a file. Throws UsageError that names `file` and the line that is not as it should be.
  void add(const std::string& file, const std::string& csv);
  /// Medians and intervals, a line each: library,ranks,bytes,microseconds,low,high,gb_per_s.
  std::string medians_csv() const;
};

}  // namespace stretto::command
