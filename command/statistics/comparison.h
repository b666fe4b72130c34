#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "command/cli/command_line.h"
#include "command/cli/output.h"
#include "command/statistics/statistics.h"
#include "stretto/base/error.h"

namespace stretto::command {

/// The result of one turn of one library for one size: a value for each metric of the comparison.
struct Reading {
  int ranks = 0;
  std::uint64_t bytes = 0;
  std::vector<double> values;
};

/// A contender in a comparison by turns: a library, or one of several ways to use it.
struct Contender {
  std::string library;
  std::string mode;  ///< "full", "solo"; empty where there is but one
  /// One repetition, in fresh processes: a reading for each size.
  std::function<Result<std::vector<Reading>>(int ranks)> run;
};

/// The name that our own library has in a comparison. It is never left out: where it fails the comparison does.
inline constexpr const char* kOurs = "stretto";
/// Ours used in another way than the usual one has a name that begins so: "stretto-registered".
bool is_ours(const std::string& library);

struct Metric {
  std::string name;     ///< with its unit, as CSV and JSON have it: "mean_ms"
  std::string heading;  ///< as the table has it: "mean ms"
};

struct Sample {
  std::size_t contender = 0;
  int repetition = 0;
  double background = 0;  ///< share of the machine that others took just before
  Reading reading;
};

/// From so much background load on a repetition is marked, and left out where there are quieter ones.
inline constexpr double kLoadedFrom = 0.1;
bool is_loaded(const Sample& sample);  ///< false where the background load is not known

/// Median and 95 % interval over repetitions.
struct Figure {
  Interval value;
  int repetitions = 0;  ///< that count
  int loaded = 0;       ///< repetitions while others loaded the machine

  /// "12.3 [12.1, 12.6]", with a * where one was made on a loaded machine; "–" where there is none.
  std::string to_text() const;
};

/// The options that every comparison has.
struct ComparisonOptions {
  std::string against;
  int repeats = 5;
  int busy = 0;  ///< processes of our own that load the machine meanwhile
  std::string csv;
  Output output;

  /// `libraries`: those that may stand in --against; none: there is no such option.
  void describe_measurement(CommandLine& line, std::vector<std::string> libraries);
  void describe_output(CommandLine& line);
  /// How repetitions are taken and marked, for the end of --help.
  static const char* note();
};

/// Measures contenders interleaved, in rotated order, and prints the results.
class Comparison {
 public:
  struct Plan {
    std::string name;  ///< "allreduce"
    std::vector<int> ranks;
    std::string mode_heading;  ///< "activation"; empty where no contender has a mode
    std::vector<Metric> metrics;
    std::vector<Contender> contenders;
    std::string places = {};  ///< where the ranks are, in words; empty: on this host
  };
  /// `options` must outlive it.
  Comparison(Plan plan, const ComparisonOptions& options) : plan_(std::move(plan)), options_(options) {}

  /// Throws Failure when ours fails; others are left out and noted.
  void measure();

  const Plan& plan() const { return plan_; }
  /// Number of ranks and size of each measured case, in the order of measuring.
  struct Case {
    int ranks = 0;
    std::uint64_t bytes = 0;
    friend bool operator==(const Case&, const Case&) = default;
  };
  std::vector<Case> cases() const;
  Figure figure(std::size_t contender, Case at, std::size_t metric) const;
  /// A contender's value over that of another one in the same repetition, one right after the other: median and 95 %
  /// interval over all repetitions, those on a loaded machine among them. NaN: there is none.
  Interval ratio(std::size_t contender, std::size_t other, Case at, std::size_t metric) const;

  /// A row for each contender, a column for each of these metrics (by index).
  std::string table(const std::vector<std::size_t>& metrics) const;
  /// The libraries left out, and why; the share measured on a loaded machine. Each ends its line.
  std::string notes() const;
  /// Each repetition, a line each.
  std::string csv() const;
  nlohmann::ordered_json to_json() const;

  /// Measures and writes everything: machine, the text that `tables` makes, notes, CSV, JSON.
  void run(const std::function<std::string()>& tables);

 private:
  void measure(std::size_t contender, int ranks, int repetition);

  const Plan plan_;
  const ComparisonOptions& options_;
  std::vector<Sample> samples_;
  std::vector<std::string> notes_;
};

/// Of those samples that are of this contender, case and metric.
Figure figure_of(const std::vector<Sample>& samples, std::size_t contender, Comparison::Case at, std::size_t metric);

/// The numbers of a list, each from `low` to JobMemory::kMaxRanks. Throws UsageError.
std::vector<int> parse_ranks(const std::string& list, int low);

}  // namespace stretto::command
