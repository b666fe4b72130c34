#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/membership/etcd/candidacy.h"
#include "stretto/membership/etcd/etcd.h"
#include "stretto/membership/etcd/etcd_register.h"
#include "stretto/membership/masters/job_master.h"

namespace stretto {

/// A launcher's part in the master of a job whose register is in etcd: one of the job's launchers has it at a time
/// (Candidacy), and each may have the next one. A job's options stand beside its register, under stretto/NAME/terms, as
/// its first launcher has written them. All are at loopback addresses, or none is. The owner's thread alone calls.
class SharedMaster {
 public:
  /// Of the first launcher, and of one that is started again in its place. Throws Failure as JobMaster.
  explicit SharedMaster(const JobMaster::Options& options) : SharedMaster(options, true) {}
  /// Of another one. Throws Failure: Errc::unavailable where there is no such job, else as JobMaster.
  SharedMaster(const EtcdAddress& at, const Token& token) : SharedMaster(options_of(at, token), false) {}
  ~SharedMaster();  ///< another launcher has the next master
  SharedMaster(const SharedMaster&) = delete;
  SharedMaster& operator=(const SharedMaster&) = delete;

  /// The end of the job, as the register has it. JobEnd::none, too, where etcd does not answer.
  JobEnd end_of_job();
  /// Register::reports().
  Result<std::map<MemberNumber, std::string>> reports() { return register_->reports(); }
  /// Gives `tell` the lines for a person that have come up since the last call.
  void fulfil_wishes(JobOfMembers::Tell tell);
  /// How many processes are connected to the master, where it is here.
  std::size_t visitors();

 private:
  SharedMaster(const JobMaster::Options& options, bool is_first);
  static JobMaster::Options options_of(const EtcdAddress& at, const Token& token);
  std::string begin(std::uint64_t term);
  void end();
  void tell(const std::string& line);
  /// Takes what the master wishes. With the mutex locked.
  void hear_wishes();

  JobMaster::Options options_;
  const std::unique_ptr<EtcdRegister> register_;
  bool is_quiet_;  // the job's first master is expected here
  std::mutex mutex_;
  std::unique_ptr<JobMaster> master_;  // the candidacy's thread makes and ends it
  std::vector<std::string> to_tell_;
  std::optional<Candidacy> candidacy_;  // ends first
};

}  // namespace stretto
