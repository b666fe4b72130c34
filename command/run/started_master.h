#pragma once

#include <memory>
#include <optional>
#include <string>

#include "command/run/program_ranks.h"
#include "stretto/membership/masters/job_address.h"
#include "stretto/membership/masters/job_master.h"
#include "stretto/membership/masters/shared_master.h"

namespace stretto::command {

/// The master of a job whose members change, for the launcher that starts the job, or its part in that, and the file
/// with the secret by which others come to it.
class StartedMaster {
 public:
  /// `here`: processes that are started first. Throws Failure where the master cannot listen, or the secret cannot be
  /// written.
  StartedMaster(const ProgramRanks& job, int here);
  ~StartedMaster();  ///< the secret stays where another master may go on from the register
  StartedMaster(const StartedMaster&) = delete;
  StartedMaster& operator=(const StartedMaster&) = delete;

  /// Null: the job's launchers share it.
  JobMaster* master() { return master_.get(); }
  /// Null: they do not. They do with a register in etcd.
  SharedMaster* shared() { return shared_.get(); }
  const Token& token() const { return token_; }
  /// Whether the register of a job says that it has begun, under a master before this one. Throws Failure as
  /// JobMaster, where that has a register.
  static bool has_begun(const ProgramRanks& job);
  /// How others come, for a person; empty: nobody does.
  const std::string& how_to_come() const { return how_to_come_; }

 private:
  JobEnd end_of_job() { return master_ ? master_->known().end : shared_->end_of_job(); }

  const bool has_log_;
  Token token_{};
  std::optional<SecretFile> secret_;
  std::unique_ptr<JobMaster> master_;
  std::unique_ptr<SharedMaster> shared_;
  std::string how_to_come_;
};

}  // namespace stretto::command
