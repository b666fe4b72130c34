#include "stretto/membership/masters/remote_job.h"

#include <utility>

#include "stretto/membership/hosts/members/link_words.h"
#include "stretto/membership/hosts/members/master_line.h"
#include "stretto/membership/masters/job_address.h"

namespace stretto {

RemoteJob::RemoteJob(Options options) : options_(std::move(options)) {
  const auto end = [this](const Error& why) {
    const std::lock_guard lock(mutex_);
    gone_ = why.message;
    heard_.notify_all();
  };
  line_ = std::make_unique<MasterLine>(
      MasterLineOptions{.host = options_.at.host,
                        .port = options_.at.port,
                        .find = options_.at.finder(),
                        .token = options_.token,
                        .hear = [this](MasterLine&, const MasterWords& words) { hear(words); },
                        .ended = end,
                        .silent = [this](bool is_silent, Duration limit) { be_silent(is_silent, limit); },
                        .over = [this] { be_unsettled(); },
                        .anew = [this](MasterLine&) { begin_anew(); }});
  (void)known();
  const std::lock_guard lock(mutex_);
  require_master();
  if (!refused_.empty()) throw Failure({Errc::bad_input, text("this process is not let in: ", refused_)});
}

RemoteJob::~RemoteJob() = default;

void RemoteJob::hear(const MasterWords& words) {
  const std::lock_guard lock(mutex_);
  switch (words.kind) {
    case MasterWords::Kind::stands:
      known_ = *words.content;
      beside_ = words.beside;
      break;
    case MasterWords::Kind::place:
      place_ = MemberPlace{.host = line_->at().address().to_string(),
                           .port = line_->at().port(),
                           .number = words.number,
                           .place = words.place,
                           .most = words.places,
                           .patience = std::chrono::duration_cast<std::chrono::milliseconds>(line_->patience()),
                           .token = options_.token,
                           .etcd = options_.at.etcd};
      places_[words.number] = words.place;
      break;
    case MasterWords::Kind::refuse: refused_ = words.why; break;
    case MasterWords::Kind::tell: known_ = *words.content; return;  // the end of the job
    case MasterWords::Kind::kill: to_kill_.emplace_back(words.number, Fate::excluded); return;
    case MasterWords::Kind::lost: to_kill_.emplace_back(words.number, Fate::lost_with_host); return;
    case MasterWords::Kind::not_come: to_kill_.emplace_back(words.number, Fate::not_come); return;
    default: return;  // words to members
  }
  if (++answered_ == settled_at_) silent_ = false;
  heard_.notify_all();
}

void RemoteJob::be_silent(bool is_silent, Duration limit) {
  const std::lock_guard lock(mutex_);
  const JobAddress at{.host = line_->at().address().to_string(), .port = line_->at().port()};
  if (known_.end != JobEnd::none) return;
  if (is_silent) {
    tell(text("nothing comes from the master of the job at ", at.to_string(), " for ", to_text(limit),
              ": the members of this host wait until it does"));
    silent_ = true;
    is_asked_since_ = false;
    heard_.notify_all();
  } else {
    tell(text("the master of the job at ", at.to_string(), " is heard again"));
    // Over another connection it has been asked before: asked once more, what this process asks meanwhile has no
    // answer.
    if (!is_asked_since_) ask_who_is_lost();
  }
}

void RemoteJob::be_unsettled() {
  const std::lock_guard lock(mutex_);
  silent_ = true;
  heard_.notify_all();
}

void RemoteJob::begin_anew() {
  const std::lock_guard lock(mutex_);
  answered_ = asked_;  // what was asked before is not
  ask_who_is_lost();
}

/// Until the master has answered nobody knows whether the others have gone on without the members of this host.
void RemoteJob::ask_who_is_lost() {
  silent_ = is_asked_since_ = true;
  settled_at_ = ++asked_;
  for (const auto& [number, place] : places_) {
    ProcessWords has = ProcessWords::of(ProcessWords::Kind::has, number);
    has.wish = place;
    line_->write(has);
  }
  line_->write(ProcessWords::of(ProcessWords::Kind::look));
  heard_.notify_all();
}

void RemoteJob::ask(const ProcessWords& words) {
  std::unique_lock lock(mutex_);
  if (!gone_.empty() || silent_) return;
  const std::uint64_t question = ++asked_;
  lock.unlock();
  line_->write(words);
  lock.lock();
  const auto is_over = [&] { return answered_ >= question || !gone_.empty() || silent_; };
  if (heard_.wait_for(lock, options_.answer_within, is_over) || !options_.at.etcd.empty()) return;
  gone_ = text("it has not answered within ", to_text(options_.answer_within));
}

void RemoteJob::require_master() const {
  if (gone_.empty()) return;
  throw Failure(
      {Errc::unavailable, text("no master with this secret listens at ", options_.at.to_string(), ": ", gone_,
                               "; expected the address that stretto run --ranks MIN:MAX --listen has said, and "
                               "the secret of that job")});
}

MemberPlace RemoteJob::give_place(std::optional<int> wish) {
  ProcessWords words = ProcessWords::of(ProcessWords::Kind::come);
  words.wish = wish;
  ask(words);
  const std::lock_guard lock(mutex_);
  require_master();
  if (!refused_.empty()) throw Failure({Errc::unavailable, std::exchange(refused_, {})});
  if (!place_) throw Failure({Errc::unavailable, "nothing comes from the master of the job"});
  return *std::exchange(place_, std::nullopt);
}

void RemoteJob::lose(MemberNumber number) {
  {
    const std::lock_guard lock(mutex_);
    places_.erase(number);
  }
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

void RemoteJob::fulfil_wishes(Kill kill, Tell tell) {
  std::vector<std::pair<MemberNumber, Fate>> to_kill;
  std::vector<std::string> to_tell;
  {
    const std::lock_guard lock(mutex_);
    to_kill.swap(to_kill_);
    to_tell.swap(to_tell_);
  }
  for (const std::string& line : to_tell) tell(line);
  for (const auto& [number, fate] : to_kill) kill(number, fate);
}

JobBeside RemoteJob::beside() const {
  const std::lock_guard lock(mutex_);
  return beside_;
}

bool RemoteJob::is_gone() const {
  const std::lock_guard lock(mutex_);
  return !gone_.empty();
}

bool RemoteJob::is_silent() const {
  const std::lock_guard lock(mutex_);
  return silent_ && gone_.empty() && known_.end == JobEnd::none;
}

}  // namespace stretto
