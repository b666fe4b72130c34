#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "command/run/places/host_list.h"
#include "command/run/places/rank_environment.h"
#include "stretto/base/clock.h"
#include "stretto/membership/masters/job_address.h"

namespace stretto::command {

class CallingLauncher;

/// A job whose ranks are processes of any program, on this host or others.
struct ProgramRanks {
  std::vector<std::string> program;  ///< and its arguments; looked for on PATH
  bool is_own = false;               ///< it is this Stretto, wherever that lies on a host
  int ranks = 1;                     ///< at a time
  /// The job goes on without ranks that are lost as long as so many are left: members change. 0: it does not.
  int least = 0;
  int restarts = 0;                       ///< with it: processes that take the places of lost ones, all together
  bool no_return = false;                 ///< with it: none takes the place of one that the others have excluded
  std::optional<int> here = {};           ///< with it: processes that are started here; none: as many as ranks
  std::optional<JobAddress> listen = {};  ///< with it: where processes come that are started elsewhere
  std::optional<Duration> patience = {};  ///< with it: for members, where too few are left
  Duration evict = Duration(0);           ///< with it: of a member that stands still in a call; 0: never
  /// With `listen`: a host of which nothing comes for so long is lost with its members.
  Duration liveness = std::chrono::seconds(5);
  std::string secret_file = {};  ///< where the secret of the job is, or will be
  /// With `listen`: the file of the register, from which another master goes on where this one was killed.
  std::string log = {};
  /// The processes come to the job that listens there, as `here` of its members; an empty program: as it has it.
  std::optional<JobAddress> job = {};
  Duration grace = std::chrono::seconds(30);  ///< from SIGTERM, or a signal that is passed on, to SIGKILL
  /// That of a member without which the others go on: with `evict` little, since one that stands still ends by no
  /// signal that it could handle.
  Duration grace_of_excluded() const {
    return evict > Duration::zero() ? std::min<Duration>(grace, std::chrono::seconds(5)) : grace;
  }
  std::vector<HostRanks> hosts = {};                  ///< where they are started; empty: on this host
  std::string rsh = {};                               ///< with `hosts`: the remote shell, and its options
  Duration answer_within = std::chrono::seconds(30);  ///< with `hosts`: the launcher on each, before the job begins
  /// The launcher that has started this one for one of its hosts, `on_host`; null: a person has started it.
  CallingLauncher* caller = nullptr;
  /// Whether the ranks go on where that is gone: another launcher of the job has its master then.
  bool goes_on_without_caller() const { return caller != nullptr && job && !job->etcd.empty(); }
  RanksOfHost on_host = {};
  bool tag = false;            ///< each line of output begins with its rank
  bool reads_reports = false;  ///< where members change: EndOfPrograms::reports are asked for
};

/// How the processes of a job have ended.
struct EndOfPrograms {
  /// The exit status for this process: 0 where all ranks have ended with 0, or where members change the job has come to
  /// its end; the status of the first that has not (128 + signal where it was killed); 128 + signal where one came to
  /// this process; 127 where there is no such program and 126 where it cannot be executed.
  int status = 0;
  int first_lost = 0;        ///< the exit status of the first process without which the others went on
  bool interrupted = false;  ///< a signal came to this process
  bool reached_end = false;  ///< where members change
  /// The same: what members have reported (RankContext::report()), also those that were started elsewhere.
  std::vector<std::string> reports = {};
};

/// Starts the ranks, waits for their ends, and leaves none of their processes behind. Lines on standard error, which
/// begin with `name`, say what goes wrong. Throws Failure where no process, pipe or port can be had (Errc::io), or no
/// master of `job` is there.
EndOfPrograms run_program_ranks(const ProgramRanks& job, const std::string& name);

}  // namespace stretto::command
