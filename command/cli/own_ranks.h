#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "command/cli/values.h"
#include "command/machine/namespace_hosts.h"
#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/collective/plain.h"
#include "stretto/engine/driver.h"
#include "stretto/membership/job.h"

namespace stretto::command {

/// The time limit of one call of a measured collective, generous for slow machines.
inline constexpr Duration kCallTimeout = std::chrono::seconds(60);

/// The reports of the ranks of a job, which meet on `hosts` where there are some. Errc as run_job() and join_job();
/// also Errc::lost_peer and Errc::aborted when a rank has failed. Throws Interrupted.
Result<std::vector<std::string>> reports_of_ranks(JobOptions options, const RankMain& main,
                                                  const NamespaceHosts* hosts = nullptr);
/// That of rank 0 alone.
Result<std::string> report_of_rank_0(const JobOptions& options, const RankMain& main,
                                     const NamespaceHosts* hosts = nullptr);

/// Where the ranks of a measurement begin together, on whichever hosts of this machine they are.
class CommonStart {
 public:
  /// `engine` outlives it. The ranks make it in the same order as their other collectives.
  explicit CommonStart(Engine& engine) : latest_(engine, DataType::int64, 1, ReduceOp::max) {}
  /// Waits until all ranks have come. Returns a time a `lead` after the last of them, the same for all: if `lead` is
  /// long enough, all are awake by then. Throws Failure.
  TimePoint wait(EngineDriver& driver, Duration lead);

 private:
  Allreduce latest_;
};

/// How the ranks of a measurement wait: as ranks that share cores where there are fewer of these.
DriverOptions waiting_of(RankContext& context);

/// Takes --seats N of a measurement into PartialOptions::seats.
Setter seats_into(int& seats);
/// Rejects more seats than there are ranks.
void check_seats(int seats, int ranks);
/// The text of --help about --seats.
inline constexpr const char* kSeatsHelp =
    "So many ranks meet in the memory they share, fewer at the last board, with messages between the boards. 1: "
    "messages alone, as between hosts. Default: all ranks of the host meet at one.";

/// Keeps this process to one core, another one for each number: a simulation's ranks are threads of which one runs at a
/// time, and on one core they hand over to each other in half the time that it takes between two.
void stay_on_a_core(int process);

/// The results of `work` for each of 0 … count − 1, in that order. So many processes take one after the other, each on
/// a core of its own; how many there are changes no result. Shows on standard error how far it is, as `what` of so many
/// `units`. Throws what `work` throws as UsageError or std::bad_alloc, and Interrupted.
std::vector<nlohmann::json> in_processes(int processes, std::size_t count,
                                         const std::function<nlohmann::json(std::size_t)>& work, const char* what,
                                         const char* units);

}  // namespace stretto::command
