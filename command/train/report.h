#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "command/machine/machine.h"
#include "command/statistics/statistics.h"
#include "command/train/run_set.h"

namespace stretto::command {

/// The mean over the runs of a group of what `value`, a function or a member of RunSummary, says of each.
template <class Value>
double mean_over_runs(const RunGroup& group, Value value) {
  std::vector<double> values;
  for (const RunSummary& run : group.runs) values.push_back(std::invoke(value, run));
  return mean(values);
}

/// The differences of a group from the first one, seed by seed, with 95 % intervals. A measure that the workload does
/// not have is absent.
struct PairedDifferences {
  Interval speedup;                  ///< ratio of throughputs: geometric mean
  std::optional<Interval> loss;      ///< on test data, minus the first one's
  std::optional<Interval> accuracy;  ///< on test data, minus the first one's
};

/// Requires: as many runs in both, of the same seeds.
PairedDifferences paired_differences(const RunGroup& first, const RunGroup& group);

/// Throughput over that of the first group's run with the same seed. 1 for the first group itself.
std::vector<double> speedups(const RunGroup& first, const RunGroup& group);
/// The throughput possible without any waiting, for the delays that were drawn, over that of an ideal sync.
double ideal_speedup(const RunSummary& run);
/// Throughput over the throughput possible without any waiting.
double share_of_ideal(const RunSummary& run);

/// One line a group: mean and spread over its runs.
std::string comparison_table(std::span<const RunGroup> groups);
/// One line a group: how good the model that counts at the end is on training data and, where the workload has more
/// than five classes, how often the class is among the five guessed first. Empty where nothing was evaluated.
std::string score_table(std::span<const RunGroup> groups);
/// One line for each group but the first; empty with fewer than two runs a group.
std::string paired_table(std::span<const RunGroup> groups);
/// The meaning of the column "ideal", and why a measured speed-up exceeds it where one does.
std::string about_the_ideal(std::span<const RunGroup> groups);
/// The fastest of those behind the first that are not clearly less accurate; the first where it is alone.
const RunGroup& best_of(std::span<const RunGroup> groups);
/// The result of a comparison in one sentence: what the best of the others gains over the first, and whether accuracy
/// (or test loss, where the workload has none) is equal, which it is where the 95 % interval contains 0. Empty for one
/// group.
std::string conclusion(std::span<const RunGroup> groups);
/// The ledgers: which ranks were late, how long others waited for them, and what became of all contributions.
std::string ledger_text(const RunGroup& group);
/// The messages and bytes that a rank sends in a step under each algorithm, a line.
std::string traffic_text(std::span<const RunGroup> groups);
/// "imbalance persistent:rank=3,factor=3 (injected), pace 50us per image (emulated by sleeping)": which parts of this
/// measurement are real and which are not.
std::string conditions(const TrainOptions& options, const std::string& unit);

/// The schema of `stretto train --json`.
nlohmann::ordered_json to_json(const RunSummary& run, std::optional<double> speedup);
nlohmann::ordered_json to_json(const Interval& interval);
/// The schema of `stretto compare --json`: runs, in the order of groups and seeds, paired, imbalance, pace, machine.
nlohmann::ordered_json to_json(std::span<const RunGroup> groups, const Machine& machine);

/// The first broken promise in words: lost deposits, replicas that differ. Empty if there is none.
std::string broken_promise(const RunGroup& group);

/// A table of the cost of ordering on each rank (docs/ordering.md), of the first run of each group, and how far apart
/// they came to their agreements. Empty where no group has an order.
std::string ordering_table(std::span<const RunGroup> groups);

/// A table of what ranks have done in the lines of a grid, by dimension: means over the ranks of the first run of each
/// group that has lines. Without a line break at its end; empty: there are none.
std::string lines_table(std::span<const RunGroup> groups);

/// The measurements over batches and over time, one row a point, quoted as RFC 4180 says:
/// algorithm,seed,batches,seconds,loss,test_loss,accuracy. A point is the training loss since the point before, or an
/// evaluation on test data, the last of them that of the model that counts; what it has not is empty.
std::string curves_csv(std::span<const RunGroup> groups);
/// Batches applied a second, one row a run, beside those that the drawn delays leave time for where nothing is
/// communicated: algorithm,imbalance,ranks,seed,batches_per_second,no_communication.
std::string throughput_csv(std::span<const RunGroup> groups);

/// Writes curves.csv to `folder`, and, where matplotlib is to be had, curves-batches.svg, curves-time.svg, and
/// waiting.svg: who waits for whom, in the first algorithm and in the best of the others. Returns a sentence that names
/// the files written, or the reason why some were not.
std::string write_pictures(const std::string& folder, std::span<const RunGroup> groups);
/// waiting.svg alone, from records that lie in the folder `inside` that of each run.
std::string write_waiting(const std::string& folder, std::span<const RunGroup> groups, const std::string& inside);
/// throughput.csv and throughput.svg, over the number of ranks, in the same way.
std::string write_throughput(const std::string& folder, std::span<const RunGroup> groups);

}  // namespace stretto::command
