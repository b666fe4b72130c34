#include "stretto/membership/masters/remote_job.h"

#include <utility>

#include "stretto/membership/hosts/members/link_words.h"
#include "stretto/membership/hosts/members/master_line.h"
#include "stretto/membership/masters/job_address.h"

namespace stretto {

RemoteJob::RemoteJob(Options options) : options_(std::move(options)) {
  line_ = std::make_unique<MasterLine>(
      options_.host, options_.port, options_.token, [this](MasterLine&, const MasterWords& words) { hear(words); },
      [this](const Error& why) {
        const std::lock_guard lock(mutex_);
        gone_ = why.message;
        heard_.notify_all();
      });
  (void)known();
  const std::lock_guard lock(mutex_);
  require_master();
}

RemoteJob::~RemoteJob() = default;

void RemoteJob::hear(const MasterWords& words) {
  const std::lock_guard lock(mutex_);
  switch (words.kind) {
    case MasterWords::Kind::stands:
      known_ = words.content;
      beside_ = words.beside;
      break;
    case MasterWords::Kind::place:
      place_ = MemberPlace{.host = line_->address(),
                           .port = options_.port,
                           .number = words.number,
                           .place = words.place,
                           .most = words.places,
                           .token = options_.token};
      break;
    case MasterWords::Kind::refuse: refused_ = words.why; break;
    case MasterWords::Kind::kill: to_kill_.push_back(words.number); return;
    default: return;  // words to members
  }
  ++answered_;
  heard_.notify_all();
}

void RemoteJob::ask(const ProcessWords& words) {
  std::unique_lock lock(mutex_);
  if (!gone_.empty()) return;
  const std::uint64_t question = ++asked_;
  lock.unlock();
  line_->write(words);
  lock.lock();
  if (heard_.wait_for(lock, options_.answer_within, [&] { return answered_ >= question || !gone_.empty(); })) return;
  gone_ = text("it has not answered within ", to_text(options_.answer_within));
}

void RemoteJob::require_master() const {
  if (gone_.empty()) return;
  const JobAddress at{.host = options_.host, .port = options_.port};
  throw Failure({Errc::unavailable, text("no master with this secret listens at ", at.to_string(), ": ", gone_)});
}

MemberPlace RemoteJob::give_place(std::optional<int> wish) {
  ProcessWords words = ProcessWords::of(ProcessWords::Kind::come);
  words.wish = wish;
  ask(words);
  const std::lock_guard lock(mutex_);
  require_master();
  if (!refused_.empty()) throw Failure({Errc::unavailable, std::exchange(refused_, {})});
  return *std::exchange(place_, std::nullopt);
}

void RemoteJob::lose(MemberNumber number) {
  line_->write(ProcessWords::of(ProcessWords::Kind::ended, number));
}

Registered RemoteJob::known() {
  ask(ProcessWords::of(ProcessWords::Kind::look));
  const std::lock_guard lock(mutex_);
  return known_;
}

void RemoteJob::send_away(MemberNumber number) {
  line_->write(ProcessWords::of(ProcessWords::Kind::send, number));
}

void RemoteJob::fulfil_wishes(Kill kill, Tell /*tell*/) {
  std::vector<MemberNumber> to_kill;
  {
    const std::lock_guard lock(mutex_);
    to_kill.swap(to_kill_);
  }
  for (const MemberNumber number : to_kill) kill(number);
}

JobBeside RemoteJob::beside() const {
  const std::lock_guard lock(mutex_);
  return beside_;
}

bool RemoteJob::is_gone() const {
  const std::lock_guard lock(mutex_);
  return !gone_.empty();
}

}  // namespace stretto
