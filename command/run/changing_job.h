#pragma once

#include <functional>
#include <optional>
#include <string>

#include "command/run/program_ranks.h"
#include "command/run/started_master.h"
#include "stretto/base/clock.h"
#include "stretto/membership/masters/remote_job.h"

namespace stretto::command {

/// A job whose members change, as its launcher has it: the master, or the way to it.
class ChangingJob {
 public:
  using Say = std::function<void(const std::string& line)>;

  /// Starts the job with so many processes, or comes to it (ProgramRanks::job). Throws as StartedMaster and RemoteJob.
  ChangingJob(const ProgramRanks& job, int here, const Say& say);

  JobMaster* master() const { return master_; }                  ///< null: it is in another process, or may be
  SharedMaster* shared() const { return shared_; }               ///< null: this launcher never has it, or always
  RemoteJob* remote() { return remote_ ? &*remote_ : nullptr; }  ///< null: it is never elsewhere
  /// Either of these; null where the register says that the job has ended.
  JobOfMembers* members() const { return members_; }
  /// Of a job that has ended before it was started here, by its register.
  std::optional<JobEnd> ended_before() const;
  const Token& token() const { return token_; }

 private:
  /// The way to a master that is in another process, or may be.
  void reach_master(const JobAddress& at, const Say& say);

  const SteadyClock clock_;
  Token token_{};
  std::optional<StartedMaster> started_;  // where this launcher starts the job
  std::optional<SharedMaster> joined_;    // where it comes to one whose master it may have
  std::optional<RemoteJob> remote_;       // where the master may be in another process
  JobMaster* master_ = nullptr;           // of started_
  SharedMaster* shared_ = nullptr;        // of that, or joined_
  JobOfMembers* members_ = nullptr;
};

}  // namespace stretto::command
