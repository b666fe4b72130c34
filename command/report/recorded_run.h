#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stretto/train/job/summary.h"
#include "stretto/train/options/train_options.h"

namespace stretto::command {

/// One step of a rank. Times are in seconds.
struct RecordedStep {
  double begin = 0;                   ///< since the start of the run
  float computed = 0;                 ///< really, or slept as --pace asks for it
  float delayed = 0;                  ///< injected
  float waited = 0;                   ///< for other ranks
  float loss = 0;                     ///< NaN where there is none
  std::uint64_t round = 0, base = 0;  ///< as StepRecord has them
  std::uint64_t batch = 0;
  /// Rounds between the weights of its batch and the round that took the gradient; none where the trace does not say.
  std::optional<std::uint32_t> staleness;

  /// The seconds that the rank needed for the step, without the wait.
  double seconds() const { return double{computed} + double{delayed}; }
};

/// One round, as the first rank that was handed it has traced it.
struct RecordedRound {
  std::uint64_t round = 0;
  double at = 0;  ///< seconds since the start of the run
  int contributors = 0;
};

/// The content of a run's folder.
struct RecordedRun {
  std::string name;      ///< of the folder
  TrainOptions options;  ///< as far as the page shows them
  std::vector<std::vector<RecordedStep>> ranks;
  std::vector<RecordedRound> rounds;  ///< by number; empty where nothing is averaged in rounds of all ranks
  std::optional<RunSummary> summary;  ///< none while the run goes on, and where it was cut short
  std::vector<std::string> gaps;  ///< what is not recorded though it happened, as clauses: "no records of rank 0: …"
  std::string prediction;         ///< of a run that watched itself: a RatePrediction as JSON; else empty
};

/// The runs that a folder holds: itself; or, of a comparison, those of the lowest seed, in the order in which they ran.
/// Throws Failure for a folder that has none.
std::vector<std::string> run_folders_in(const std::string& path);

/// Reads the folder of a run, as much of it as there is. Throws Failure, in one line, for one that is none, was written
/// by another version, or has no whole step.
RecordedRun read_recorded_run(const std::string& path);

/// How long the steps of a rank took, without what it waited for others, in seconds, and how stale its gradients were.
/// NaN where there are too few steps.
struct RankStatistics {
  std::size_t steps = 0;
  double mean = 0, deviation = 0, least = 0, most = 0;
  double computed = 0, delayed = 0, waited = 0;  ///< sums
  std::size_t fresh = 0, stale = 0;              ///< batches, as far as the trace says when they were taken
};

RankStatistics statistics_of(std::span<const RecordedStep> steps);

/// Bars of equal width. The last one counts all that is longer, too.
struct Bars {
  double from = 0;
  double width = 0;
  std::size_t count = 0;
  bool open = false;  ///< the last bar has something beyond its end
};

/// From the shortest to the longest step of all these runs, so that they can be compared; where a few are more than
/// three times as long as 99 % of all, to half as long again as these.
Bars bars_of(std::span<const RecordedRun> runs);
/// How many steps each bar has.
std::vector<std::uint64_t> histogram(std::span<const RecordedStep> steps, const Bars& bars);
/// Entry s: batches of staleness s, over all ranks. Empty where none is known.
std::vector<std::uint64_t> staleness_histogram(const RecordedRun& run);

}  // namespace stretto::command
