#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "command/machine/namespace_hosts.h"
#include "command/statistics/comparison.h"
#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/collective/allreduce/allreduce_choice.h"
#include "stretto/collective/plain.h"

namespace stretto::command {

/// The settings of a loop of allreduces.
struct AllreduceTiming {
  Duration time = std::chrono::milliseconds(100);    ///< spent on each size, about
  bool each_call = false;                            ///< also times calls one by one
  AllreduceOptions options = {};                     ///< of ours; registered: input() and result() are used
  std::shared_ptr<const NamespaceHosts> hosts = {};  ///< of the ranks; null: all are on this one
};

/// Ours: an Allreduce of float32. The values are those that the peer programs print: calls,
/// microseconds of one and, with each_call, median and 99th percentile of single ones.
Result<std::vector<Reading>> measure_allreduce(int ranks, const AllreduceTiming& timing,
                                               std::span<const std::uint64_t> sizes);

/// The way that such ranks would use for each of `sizes`, and why (Allreduce::explanation()).
Result<std::vector<std::string>> explain_allreduce(int ranks, const AllreduceTiming& timing,
                                                   std::span<const std::uint64_t> sizes);

/// 2 (P − 1)/P · bytes / time in GB/s: the traffic over each link of a ring algorithm (NCCL calls it bus bandwidth).
double bus_bandwidth(int ranks, std::uint64_t bytes, double microseconds);

/// 2, or 4 with each_call.
std::size_t num_values(const AllreduceTiming& timing);

/// One way to do one allreduce, and how long a call took.
struct MeasuredCall {
  AllreduceChoice::Way way = AllreduceChoice::Way::gather;
  AllreduceTask task;
  double microseconds = 0;
};

/// The costs with which predicted_us() comes closest: non-negative least squares of the relative errors. A cost that
/// none of the calls has keeps its default. Requires: a call at least, each of which took some time.
AllreduceCosts fit_costs(std::span<const MeasuredCall> calls);

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
