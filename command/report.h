#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "command/machine.h"
#include "command/run_set.h"
#include "command/statistics.h"

namespace stretto::command {

/// How a group differs from the first one, seed by seed, with 95 % intervals. What a workload does not have is absent.
struct PairedDifferences {
  Interval speedup;                  ///< ratio of throughputs: geometric mean
  std::optional<Interval> loss;      ///< on test data, minus the first one's
  std::optional<Interval> accuracy;  ///< on test data, minus the first one's
};

/// Requires: as many runs in both, of the same seeds.
PairedDifferences paired_differences(const RunGroup& first, const RunGroup& group);

/// Throughput over that of the first group's run with the same seed. 1 for the first group itself.
std::vector<double> speedups(const RunGroup& first, const RunGroup& group);
/// What is possible without any waiting for the delays that were drawn, over what sync would reach.
double ideal_speedup(const RunSummary& run);
/// Throughput over what is possible without any waiting.
double share_of_ideal(const RunSummary& run);

/// One line a group: mean and spread over its runs.
std::string comparison_table(std::span<const RunGroup> groups);
/// One line for each group but the first; empty with fewer than two runs a group.
std::string paired_table(std::span<const RunGroup> groups);
/// Who was late and what it cost, and what became of all contributions.
std::string ledger_text(const RunGroup& group);
/// "imbalance persistent:rank=3,factor=3 (injected), pace 50us per image (emulated by sleeping)": what is real in this
/// measurement and what is not.
std::string conditions(const TrainOptions& options, const std::string& unit);

/// The schema of `stretto train --json`.
nlohmann::ordered_json to_json(const RunSummary& run, std::optional<double> speedup);
nlohmann::ordered_json to_json(const Interval& interval);
/// The schema of `stretto compare --json`: runs, in the order of groups and seeds, paired, imbalance, pace, machine.
nlohmann::ordered_json to_json(std::span<const RunGroup> groups, const Machine& machine);

/// What must not be in any run that promises otherwise: lost deposits, replicas that differ. Empty if all is well.
std::string broken_promise(const RunGroup& group);

}  // namespace stretto::command
