#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "stretto/observe/ledger.h"
#include "stretto/observe/run_folder.h"

namespace stretto {

/// The report of one optimizer of a loop of the user's own, in the folder STRETTO_OUT: optimizer-<index>/report.json,
/// and beside it records-<rank>.jsonl. `stretto compare --program` reads it.
struct LoopReport {
  std::string algorithm;
  int ranks = 0;
  std::uint64_t batches = 0;  ///< applied
  double seconds = 0;         ///< from the first step to the last round
  double staleness_mean = 0;  ///< per batch
  std::uint64_t staleness_max = 0;
  double computed = 0;  ///< seconds, of all ranks together
  double waited = 0;
  std::int64_t lost_deposits = 0;
  bool replicas_identical = false;
  std::map<std::string, double> recorded;  ///< DistributedOptimizer::record()
  std::string ledger;                      ///< as a table for people
};

/// The folder of an optimizer, the `index`-th that the program has made.
std::string loop_report_folder(const std::string& out, int index);
LoopReport report_of(const Ledger& ledger);

/// Errc::io names what could not be written.
Result<void> write_loop_report(const std::string& folder, const LoopReport& report);
/// Errc::bad_input where there is none, or it is none.
Result<LoopReport> read_loop_report(const std::string& folder);

}  // namespace stretto
