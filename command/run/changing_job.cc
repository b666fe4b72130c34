#include "command/run/changing_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "stretto/base/error.h"

namespace stretto::command {

namespace {

constexpr Duration kForAMaster = std::chrono::seconds(10);            // in one of the job's launchers
constexpr Duration kLookForAMaster = std::chrono::milliseconds(100);  // each
constexpr Duration kToHearOfEnd = std::chrono::seconds(5);            // for members that were started elsewhere

}  // namespace

ChangingJob::ChangingJob(const ProgramRanks& job, int here, Say say) : job_(job), say_(std::move(say)) {
  if (!job.job) {
    started_.emplace(job, here);
    token_ = started_->token();
    master_ = started_->master();
    shared_ = started_->shared();
    members_ = master_;
    if (shared_ != nullptr) at_ = JobAddress::parse(job.log).or_throw();
    if (shared_ != nullptr && shared_->end_of_job() == JobEnd::none) reach_master();
    if (!started_->how_to_come().empty()) say_(started_->how_to_come());
    const JobEnd end = members_ != nullptr ? known().end : shared_->end_of_job();
    if (end == JobEnd::none) return;
    ended_before_ = end;
    say_(text("the job of the register ", job.log, end == JobEnd::done ? " has ended" : " was given up"));
    return;
  }
  at_ = *job.job;
  token_ = JobSecret::find(job.secret_file, at_).or_throw();
  if (!at_.etcd.empty()) shared_ = &joined_.emplace(EtcdAddress::parse(at_.etcd).or_throw(), token_);
  if (shared_ == nullptr || shared_->end_of_job() == JobEnd::none) reach_master();
  if (!remote_ || known().end != JobEnd::none) {
    throw Failure({Errc::unavailable, text("the job at ", at_.to_string(), " has ended")});
  }
}

void ChangingJob::reach_master() {
  for (const TimePoint late = clock_.now() + kForAMaster; !remote_;) {
    try {
      remote_.emplace(RemoteJob::Options{.at = at_, .token = token_});
    } catch (const Failure& failure) {
      if (shared_ == nullptr || failure.error().code != Errc::unavailable || clock_.now() >= late) throw;
      std::this_thread::sleep_for(kLookForAMaster);
    }
    if (shared_ != nullptr) shared_->fulfil_wishes(say_);
  }
  members_ = &*remote_;
}

void ChangingJob::fulfil_wishes(Kill kill, Tell tell) {
  members_->fulfil_wishes(kill, tell);
  if (shared_ != nullptr) shared_->fulfil_wishes(tell);
}

/// A shared master has this launcher itself among its visitors.
bool ChangingJob::is_visited() {
  if (shared_ != nullptr) return shared_->visitors() > 1;
  return master_ != nullptr && master_->visitors() > 0;
}

bool ChangingJob::is_awaited() {
  if (!awaited_until_) awaited_until_ = clock_.now() + kToHearOfEnd;
  return clock_.now() < *awaited_until_ && (is_visited() || lacks_reports());
}

bool ChangingJob::lacks_reports() {
  if (!job_.reads_reports || shared_ == nullptr) return false;
  const Registered job = known();
  if (job.end != JobEnd::done) return false;
  const auto reports = shared_->reports();
  return !reports || std::ranges::any_of(job.view.members,
                                         [&](const PlacedMember& member) { return !reports->contains(member.number); });
}

void ChangingJob::tell_end(EndOfPrograms& end) {
  if (!started_) return;
  end.reached_end = ended_before_.value_or(members_ != nullptr ? known().end : JobEnd::none) == JobEnd::done;
  if (!job_.reads_reports || !end.reached_end) return;
  const auto reports = shared_ != nullptr ? shared_->reports() : master_->reports();
  if (!reports) {
    say_(fmt::format("what the ranks have reported cannot be read: {}", reports.error().message));
    end.status = std::max(end.status, 1);
    return;
  }
  for (const auto& [number, report] : *reports) end.reports.push_back(report);
}

}  // namespace stretto::command
