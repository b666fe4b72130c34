#pragma once

#include <functional>
#include <optional>
#include <string>

#include "command/run/program_ranks.h"
#include "command/run/started_master.h"
#include "stretto/base/clock.h"
#include "stretto/membership/masters/remote_job.h"

namespace stretto::command {

/// A job whose members change, as a launcher of it has it: the master, or the way to it.
class ChangingJob final : public JobOfMembers {
 public:
  using Say = std::function<void(const std::string& line)>;

  /// Starts the job with so many processes, or comes to it (ProgramRanks::job), and outlives that. Throws as
  /// StartedMaster and RemoteJob.
  ChangingJob(const ProgramRanks& job, int here, Say say);

  /// Of a job that has ended before it was started here, by its register: nothing else is called then but tell_end().
  std::optional<JobEnd> ended_before() const { return ended_before_; }
  /// Null: the master is never in another process.
  RemoteJob* remote() { return remote_ ? &*remote_ : nullptr; }
  /// Whether each of the job's launchers may have the master.
  bool is_shared() const { return shared_ != nullptr; }
  /// Whether the master is here, or may be.
  bool has_master() const { return shared_ != nullptr || master_ != nullptr; }
  /// Whether other processes are connected to the master, where it is here.
  bool is_visited();
  /// Once the job has ended: whether others may still have to hear of it here, or have not reported.
  bool is_awaited();
  /// Where others come to it.
  JobAddress address() const { return master_ != nullptr ? master_->address() : at_; }
  const Token& token() const { return token_; }
  /// How it has ended, for the launcher that has started it.
  void tell_end(EndOfPrograms& end);

  MemberPlace give_place(std::optional<int> wish) override { return members_->give_place(wish); }
  void lose(MemberNumber number) override { members_->lose(number); }
  Registered known() override { return members_->known(); }
  void send_away(MemberNumber number) override { members_->send_away(number); }
  void fulfil_wishes(Kill kill, Tell tell) override;

 private:
  /// The way to a master that is in another process, or may be.
  void reach_master();
  /// Whether a member that was there at the end has not reported, where the register keeps reports.
  bool lacks_reports();

  const ProgramRanks& job_;
  const Say say_;
  const SteadyClock clock_;
  Token token_{};
  JobAddress at_;                         // of a master that is in another process, or may be
  std::optional<StartedMaster> started_;  // where this launcher starts the job
  std::optional<SharedMaster> joined_;    // where it comes to one whose master it may have
  std::optional<RemoteJob> remote_;       // where the master may be in another process
  JobMaster* master_ = nullptr;           // of started_; null: it may be in another process
  SharedMaster* shared_ = nullptr;        // of that, or joined_; null: this launcher never has the master, or always
  JobOfMembers* members_ = nullptr;       // either of these; null where the job has ended before
  std::optional<JobEnd> ended_before_;
  std::optional<TimePoint> awaited_until_;
};

}  // namespace stretto::command
