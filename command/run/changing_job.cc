#include "command/run/changing_job.h"

#include <chrono>
#include <thread>

#include "stretto/base/error.h"

namespace stretto::command {

namespace {

constexpr Duration kForAMaster = std::chrono::seconds(10);            // in one of the job's launchers
constexpr Duration kLookForAMaster = std::chrono::milliseconds(100);  // each

}  // namespace

ChangingJob::ChangingJob(const ProgramRanks& job, int here, const Say& say) {
  if (!job.job) {
    started_.emplace(job, here);
    token_ = started_->token();
    master_ = started_->master();
    shared_ = started_->shared();
    members_ = master_;
    if (shared_ != nullptr && shared_->end_of_job() == JobEnd::none) {
      reach_master(JobAddress::parse(job.log).or_throw(), say);
    }
    if (!started_->how_to_come().empty()) say(started_->how_to_come());
    return;
  }
  token_ = JobSecret::find(job.secret_file, *job.job).or_throw();
  if (!job.job->etcd.empty()) shared_ = &joined_.emplace(EtcdAddress::parse(job.job->etcd).or_throw(), token_);
  if (shared_ == nullptr || shared_->end_of_job() == JobEnd::none) reach_master(*job.job, say);
  if (!remote_ || members_->known().end != JobEnd::none) {
    throw Failure({Errc::unavailable, text("the job at ", job.job->to_string(), " has ended")});
  }
}

void ChangingJob::reach_master(const JobAddress& at, const Say& say) {
  for (const TimePoint late = clock_.now() + kForAMaster; !remote_;) {
    try {
      remote_.emplace(RemoteJob::Options{.at = at, .token = token_});
    } catch (const Failure& failure) {
      if (shared_ == nullptr || failure.error().code != Errc::unavailable || clock_.now() >= late) throw;
      std::this_thread::sleep_for(kLookForAMaster);
    }
    if (shared_ != nullptr) shared_->fulfil_wishes(say);
  }
  members_ = &*remote_;
}

std::optional<JobEnd> ChangingJob::ended_before() const {
  if (!started_) return std::nullopt;
  const JobEnd end = members_ != nullptr ? members_->known().end : shared_->end_of_job();
  return end == JobEnd::none ? std::nullopt : std::optional(end);
}

}  // namespace stretto::command
