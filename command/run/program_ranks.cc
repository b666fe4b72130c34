#include "command/run/program_ranks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <map>
#include <optional>
#include <utility>

#include "command/cli/output.h"
#include "command/run/calling_launcher.h"
#include "command/run/changing_job.h"
#include "command/run/hosts_of_job.h"
#include "command/run/launcher_words.h"
#include "command/run/output_of_ranks.h"
#include "command/run/places/rank_environment.h"
#include "command/run/program_start.h"
#include "command/run/why_not_started.h"
#include "stretto/base/error.h"
#include "stretto/base/machine/process_limits.h"
#include "stretto/membership/processes/job_processes.h"
#include "stretto/membership/views/member_place.h"
#include "stretto/transport/job_memory.h"

namespace stretto::command {

namespace {

using namespace std::chrono_literals;

constexpr int kNoSuchProgram = 127, kNotExecutable = 126;  // as shells have them
constexpr int kEndedWithOthers = 128 + SIGTERM;
constexpr Duration kLeftAfterKill = 1s;   // until what has been killed, and is not seen to be gone, is left alone
constexpr Duration kUnread = 1s;          // without a reader, until output is dropped after a signal
constexpr Duration kTellEvery = 1s;       // what is left behind that it is to end
constexpr Duration kFulfilEvery = 100ms;  // what the master wishes
constexpr Duration kLookEvery = 20ms;     // at what ranks have left behind, which may end unheard
constexpr const char* kNoneComes = "no process takes its place";

/// A process of the job, until it is started: which number and place it will have.
struct ProcessToCome {
  MemberPlace place = {};
  int status = 0;  // of the lost process whose place it takes
};

class RunningPrograms {
 public:
  RunningPrograms(const ProgramRanks& job, std::string name)
      : job_(job),
        name_(std::move(name)),
        program_(job.program),
        here_(job.here.value_or(job.ranks)),
        caller_(job.caller),
        output_(caller_ != nullptr ? OutputOfRanks(caller_->to_caller(), job.goes_on_without_caller())
                                   : OutputOfRanks()),
        restarts_left_(job.restarts),
        processes_({.ranks = here_ + job.restarts,
                    .own_sessions = true,
                    .grace_after_interrupt = job.grace,
                    .ended = [this](int rank, int wait_status) { ended(rank, wait_status); },
                    .interrupted = [this] { return interrupted(); }}) {}

  EndOfPrograms run();

 private:
  /// Returns the exit status.
  int run_all();
  void begin_changing_job();
  /// Numbers and places of the first processes.
  std::vector<MemberPlace> first_places();
  void start(const MemberPlace& place);
  /// The processes that are to take the places of lost ones.
  void start_others();
  /// No process can take this place, or any other from now on.
  void leave_empty(const ProcessToCome& lost, const std::string& why);
  /// Null: the master is never in another process.
  RemoteJob* remote() { return changing_ ? changing_->remote() : nullptr; }
  /// Whether processes that were started elsewhere need the master that is here.
  bool is_needed();
  int exit_status();
  /// Takes word of the program of the rank that is being started.
  void hear_start();
  void watch_once(Duration limit, std::vector<pollfd> also = {});
  /// Does what the launcher says that has started this one, and ends all where that is gone.
  void hear_caller();
  void tell_caller(const HostWords& words) { output_.put(words.encoded() + '\n'); }
  void ended(int slot, int wait_status);
  /// The same, of a process that has become the program, once it is known whether the others go on without it.
  void take_end(int slot, int wait_status);
  void ended_well(int slot);
  /// A process has ended with another status than 0, where members change. Returns whether the others go on.
  bool go_on_without(int slot, int status, const RankFate& fate);
  /// What the loss of a process that the others do not go on without means, to be said behind it.
  std::string consequence_of_loss();
  void fail(int status);
  /// Nobody waits for a process any more; it is ended.
  void part_with(MemberNumber number, JobOfMembers::Fate fate);
  /// Has another process come in the place of a lost one, and says whether one comes.
  std::string let_another_come(int slot, int status);
  /// The rank that a process is, and its number where it is not the same.
  std::string name_of(int slot) const;
  MemberNumber number_of(int slot) const { return places_[static_cast<std::size_t>(slot)].number; }
  /// Whether the process of a member is one of these, and is there.
  bool is_here(MemberNumber number) const {
    const int slot = slot_of(number);
    return slot >= 0 && processes_.process(slot) != 0;
  }
  /// −1: none of these.
  int slot_of(MemberNumber number) const {
    const auto place = std::ranges::find(places_, number, &MemberPlace::number);
    return place == places_.end() ? -1 : static_cast<int>(place - places_.begin());
  }
  bool interrupted();
  /// Others may come to the job, or be there, than those that are started here.
  bool has_others() const { return job_.listen.has_value() || job_.job.has_value(); }
  void end_what_is_left();
  void write_what_is_left();
  bool has_ended() { return changing_ && changing_->known().end != JobEnd::none; }
  bool over() const { return failed_ || cannot_start_ != 0 || processes_.interrupted() != 0; }
  void say(const std::string& line) const { print_to(stderr, one_line(fmt::format("{}: {}", name_, line)) + "\n"); }

  const ProgramRanks& job_;
  const std::string name_;
  std::vector<std::string> program_;
  const SteadyClock clock_;
  const int here_;                              // processes that are started first
  std::optional<RankEnvironment> environment_;  // from the first that is started
  CallingLauncher* caller_;                     // null, too, once the job goes on without it
  OutputOfRanks output_;
  ProgramStart starter_;
  int starting_ = -1;  // the process whose program is not known to run
  int cannot_start_ = 0;
  bool failed_ = false;
  int status_ = 0;
  std::vector<MemberPlace> first_;                 // of those that are started first
  std::vector<MemberPlace> places_;                // of all processes that have been started, in order
  std::vector<ProcessToCome> to_start_;            // in the places of lost ones
  std::map<int, JobOfMembers::Fate> parted_;       // processes without which the others go on, until they have ended
  std::vector<std::pair<int, int>> to_part_with_;  // processes that have ended, and their wait statuses
  int restarts_left_;                              // not counting those
  int lost_status_ = 0;                            // of the first process that was lost, where the others go on
  bool all_left_ = true;                           // those that have ended, or have ended with 0
  std::optional<ChangingJob> changing_;            // where members change
  JobProcesses processes_;                         // tells of ends until it is gone: the first to go
};

EndOfPrograms RunningPrograms::run() {
  EndOfPrograms end{.status = run_all()};
  end.first_lost = lost_status_;
  end.interrupted = processes_.interrupted() != 0;
  if (changing_) changing_->tell_end(end);
  return end;
}

int RunningPrograms::run_all() {
  if (job_.least > 0 || job_.job) begin_changing_job();
  if (const auto before = changing_ ? changing_->ended_before() : std::nullopt) return *before == JobEnd::done ? 0 : 1;
  first_ = first_places();
  for (const MemberPlace& place : first_) {
    if (!over() && !has_ended()) start(place);
  }
  if (cannot_start_ != 0) {
    say(why_not_started(program_[0], cannot_start_));
    write_what_is_left();
    return cannot_start_ == ENOENT || cannot_start_ == ENOTDIR ? kNoSuchProgram : kNotExecutable;
  }
  for (start_others(); processes_.running() > 0 || is_needed(); start_others()) watch_once(1h);
  end_what_is_left();
  write_what_is_left();
  return exit_status();
}

int RunningPrograms::exit_status() {
  if (changing_) {
    const Registered job = changing_->known();
    if (job.end == JobEnd::done) return 0;
    if (remote() && remote()->is_gone() && job_.listen) {
      say("the master of the job is lost, and no other one has come");
      return 1;
    }
    if (job.view.epoch == 0 && !over() && !job_.job) {
      say(fmt::format("no rank has come to the job, whose members may change: was --ranks {} meant?", job_.ranks));
    }
  }
  if (failed_) return status_;
  if (processes_.interrupted() != 0) return remote() && all_left_ ? 0 : 128 + processes_.interrupted();
  return has_others() ? lost_status_ : 0;
}

void RunningPrograms::begin_changing_job() {
  changing_.emplace(job_, here_, [this](const std::string& line) { say(line); });
  if (program_.empty()) program_ = remote()->beside().program;
}

std::vector<MemberPlace> RunningPrograms::first_places() {
  std::vector<MemberPlace> places;
  for (int rank = job_.on_host.first; rank < job_.on_host.first + here_; ++rank) {
    places.push_back(changing_ ? changing_->give_place({})
                               : MemberPlace{.number = static_cast<MemberNumber>(rank), .place = rank, .most = here_});
  }
  return places;
}

bool RunningPrograms::is_needed() {
  if (!to_part_with_.empty() && !over()) return true;
  if (!changing_ || !changing_->has_master() || !(changing_->is_shared() || job_.listen) || over()) return false;
  const Registered job = changing_->known();
  if (job.end != JobEnd::none) return changing_->is_awaited();
  if (!job_.listen || (remote() && remote()->is_gone())) return false;
  return here_ == 0 || job.view.epoch > 0 || changing_->is_visited();
}

/// Others may be lost while a process is started. So a place leaves the list as its process gets a number: all count.
void RunningPrograms::start_others() {
  while (!to_start_.empty() && !over() && !has_ended()) {
    const ProcessToCome lost = to_start_.front();
    to_start_.erase(to_start_.begin());
    std::string why;
    try {
      start(lost.place);
      if (cannot_start_ != 0) why = why_not_started(program_[0], std::exchange(cannot_start_, 0));
      while (!why.empty() && processes_.process(starting_) != 0) watch_once(1h);  // else it counts as one that is left
    } catch (const Failure& failure) {
      why = failure.what();
    }
    if (!why.empty()) leave_empty(lost, why);
  }
  to_start_.clear();
}

void RunningPrograms::leave_empty(const ProcessToCome& lost, const std::string& why) {
  to_start_.clear();
  restarts_left_ = 0;
  changing_->lose(lost.place.number);
  if (over()) return;
  const bool enough = has_others() || processes_.running() >= job_.least;
  say(fmt::format("no process takes the place of rank {}: {}{}", lost.place.place, why,
                  enough ? "; the others go on" : consequence_of_loss()));
  if (!enough) fail(lost.status);
}

void RunningPrograms::start(const MemberPlace& place) {
  const int slot = static_cast<int>(places_.size()), rank = place.place;
  places_.push_back(place);
  if (!environment_) {
    environment_.emplace(changing_ ? place.most : job_.ranks, place.most, job_.on_host, own_environment());
  }
  if (!starter_.open()) throw Failure(processes_.not_started(slot, "pipe"));
  OutputOfRanks::Ends output;
  if (job_.tag || caller_ != nullptr) output = output_.add(job_.tag ? fmt::format("[rank {}] ", rank) : "");
  std::vector<std::string> variables = environment_->of(rank);
  if (changing_) variables.push_back(fmt::format("{}={}", MemberPlace::kVariable, place.encoded()));
  const Descriptor nothing(rank == 0 ? -1 : ::open("/dev/null", O_RDONLY | O_CLOEXEC));
  starting_ = slot;
  processes_.start(slot, [&] { starter_.become(program_, variables, nothing.get(), output); }).or_throw();
  starter_.be_parent();
  while (starter_.is_open()) {
    hear_start();
    if (starter_.is_open()) watch_once(1h, {starter_.looked_at()});
  }
}

void RunningPrograms::hear_start() {
  if (!starter_.is_open()) return;
  cannot_start_ = starter_.hear();
  if (!starter_.is_open() && cannot_start_ == 0) starting_ = -1;
}

void RunningPrograms::watch_once(Duration limit, std::vector<pollfd> also) {
  for (const pollfd& looked_at : output_.looked_at()) also.push_back(looked_at);
  if (caller_ != nullptr) also.push_back(caller_->looked_at());
  const bool looks_often = changing_ || caller_ != nullptr;
  processes_.wait(std::move(also), looks_often ? std::min<Duration>(limit, kFulfilEvery) : limit);
  output_.pass_on();
  hear_caller();
  processes_.attend();
  if (!changing_) return;
  if (!to_part_with_.empty() && !over()) (void)changing_->known();  // by which a master that has just gone shows
  const bool is_silent = remote() && remote()->is_silent() && !over();
  changing_->fulfil_wishes([this](MemberNumber number, JobOfMembers::Fate fate) { part_with(number, fate); },
                           [this](const std::string& line) { say(line); });
  if (is_silent) return;
  for (const auto& [slot, wait_status] : std::exchange(to_part_with_, {})) take_end(slot, wait_status);
}

void RunningPrograms::hear_caller() {
  if (caller_ == nullptr) return;
  caller_->hear([this](const CallerWords& words) {
    if (words.kind == CallerWords::Kind::signal) ::kill(::getpid(), words.number);
    if (words.kind == CallerWords::Kind::end && !over()) fail(kEndedWithOthers);
  });
  if (caller_->is_beat_due() && !output_.pending()) tell_caller({});
  if (!caller_->is_gone()) return;
  if (job_.goes_on_without_caller() && !over()) {
    caller_ = nullptr;
    output_.drop();
    return say("the launcher that has started this one is gone: the job goes on");
  }
  failed_ = true;
  processes_.kill_within(Duration::zero());
}

void RunningPrograms::part_with(MemberNumber number, JobOfMembers::Fate fate) {
  const int slot = slot_of(number);
  if (slot < 0) return;
  parted_[slot] = fate;
  if (fate == JobOfMembers::Fate::excluded) return processes_.end_member(slot, job_.grace_of_excluded());
  if (processes_.process(slot) == 0) return;
  if (fate == JobOfMembers::Fate::lost_with_host) return processes_.send(slot, SIGKILL);
  say(fmt::format("{} has not come to the job, which has ended: it is ended, too", name_of(slot)));
  processes_.send(slot, SIGTERM);
  processes_.end_member(slot, job_.grace);
}

std::string RunningPrograms::let_another_come(int slot, int status) {
  try {
    const MemberPlace place = changing_->give_place(places_[static_cast<std::size_t>(slot)].place);
    to_start_.push_back({place, status});
    return fmt::format("another process takes its place, as member {}", place.number);
  } catch (const Failure& failure) {
    return fmt::format("no process takes its place: {}", failure.what());
  }
}

void RunningPrograms::ended(int slot, int wait_status) {
  if (slot == starting_) hear_start();
  if (slot == starting_) return;  // it has not become the program
  // Before the master has been heard nobody knows whether the others have gone on without it.
  if (remote() && !over()) return to_part_with_.push_back({slot, wait_status});
  take_end(slot, wait_status);
}

void RunningPrograms::take_end(int slot, int wait_status) {
  if (changing_) changing_->lose(number_of(slot));
  const int status = exit_status_of(wait_status);
  const RankFate fate{.kind = RankFate::Kind::lost, .wait_status = wait_status};
  const auto parted = parted_.find(slot);
  if (parted != parted_.end() && parted->second == JobOfMembers::Fate::not_come) {
    if (status == 128 + SIGKILL) say(fmt::format("{} had not ended: killed", name_of(slot)));
    return;
  }
  if (parted != parted_.end() && parted->second == JobOfMembers::Fate::lost_with_host && !over()) {
    if (job_.no_return && lost_status_ == 0) lost_status_ = status;
    return say(fmt::format("{} was lost with this host, of which its master heard nothing; {}", name_of(slot),
                           job_.no_return ? kNoneComes : let_another_come(slot, status)));
  }
  if (processes_.killing() && status == 128 + SIGKILL) say(fmt::format("{} had not ended: killed", name_of(slot)));
  if (changing_ && (!over() || remote()) && changing_->known().view.has_departed(number_of(slot))) {
    return say(fmt::format("{} has left{}", name_of(slot), status == 0 ? "" : fmt::format(": {}", fate.to_string())));
  }
  all_left_ &= status == 0 || (remote() && status == 128 + SIGTERM);  // of one that was no member yet
  if (status == 0 && changing_) return ended_well(slot);
  if (status == 0 || over()) return;
  if (changing_ && changing_->known().end == JobEnd::done) {
    return say(fmt::format("{} is lost: {}; the others have reached the end", name_of(slot), fate.to_string()));
  }
  if (changing_ && go_on_without(slot, status, fate)) return;
  say(fmt::format("{}{}: {}{}", name_of(slot), remote() ? "" : fmt::format(" of {}", job_.ranks), fate.to_string(),
                  consequence_of_loss()));
  fail(status);
}

/// With status 0, and without having left the job as a member.
void RunningPrograms::ended_well(int slot) {
  const Registered job = changing_->known();
  if (over() || job.end != JobEnd::none || job.view.epoch == 0) return;
  say(fmt::format("{} {}", name_of(slot),
                  job.view.may_come_in(number_of(slot)) ? "has left before it came in"
                                                        : "has ended before the job, which goes on without it"));
}

bool RunningPrograms::go_on_without(int slot, int status, const RankFate& fate) {
  if (changing_->known().end != JobEnd::none) return false;
  // At the beginning others may not have been started yet.
  const std::size_t to_come = first_.size() - std::min(first_.size(), places_.size()) + to_start_.size();
  const int left = processes_.running() + static_cast<int>(to_come);
  if (restarts_left_ == 0 && left < job_.least && !has_others()) return false;
  if (lost_status_ == 0) lost_status_ = status;
  std::string then = "the others go on";
  if (job_.no_return && parted_.contains(slot)) {
    then = kNoneComes;
  } else if (restarts_left_ > 0) {
    then = let_another_come(slot, status);
    --restarts_left_;
  }
  say(fmt::format("{} is lost: {}; {}", name_of(slot), fate.to_string(), then));
  return true;
}

std::string RunningPrograms::consequence_of_loss() {
  if (changing_) {
    const Registered job = changing_->known();
    const bool is_there =
        std::ranges::any_of(job.view.members, [this](const PlacedMember& member) { return is_here(member.number); });
    if (job.end == JobEnd::given_up && !is_there) return "; the job is over: nobody is left who has its model";
  }
  return processes_.running() > 0 || (!changing_ && job_.on_host.hosts > 1) ? "; the others are ended" : "";
}

void RunningPrograms::fail(int status) {
  if (caller_ != nullptr) tell_caller({.kind = HostWords::Kind::failed, .number = status});
  failed_ = true;
  status_ = status;
  processes_.kill_within(job_.grace);
  processes_.send_all(SIGTERM);
}

std::string RunningPrograms::name_of(int slot) const {
  const MemberPlace& is = places_[static_cast<std::size_t>(slot)];
  const bool same = is.number == static_cast<MemberNumber>(is.place);
  return same ? fmt::format("rank {}", is.place) : fmt::format("rank {} (member {})", is.place, is.number);
}

/// Where the job is elsewhere it goes on without the processes that are here: those that are in it leave.
bool RunningPrograms::interrupted() {
  const char* const signal = sigabbrev_np(processes_.interrupted());
  if (caller_ != nullptr) return true;
  if (!remote()) {
    say(fmt::format("SIG{} is passed on to the ranks; a second signal kills them", signal));
    return true;
  }
  say(fmt::format("SIG{}: the members that were started here leave; a second signal kills them", signal));
  const Registered job = changing_->known();
  const std::vector<MemberNumber> spares = remote()->beside().spares;
  for (std::size_t slot = 0; slot < places_.size(); ++slot) {
    const MemberNumber number = places_[slot].number;
    if (job.view.has(number) || std::ranges::count(spares, number) > 0) {
      changing_->send_away(number);
    } else {
      processes_.send(static_cast<int>(slot), SIGTERM);
    }
  }
  return false;
}

/// Processes that ranks have started and left behind in their groups. A shell's child that has not yet become another
/// program may lose a signal that the shell catches, so that they are told again.
void RunningPrograms::end_what_is_left() {
  if (!processes_.left()) return;
  processes_.kill_within(job_.grace);
  TimePoint tell_at = clock_.now();
  std::optional<TimePoint> end;
  while (processes_.left() && (!end || clock_.now() < *end)) {
    if (clock_.now() >= tell_at) {
      processes_.send_all(SIGTERM);
      tell_at = clock_.now() + kTellEvery;
    }
    watch_once(kLookEvery);
    if (processes_.killing() && !end) end = clock_.now() + kLeftAfterKill;
  }
}

/// After a signal output that nobody reads is dropped: perhaps it came for that reason.
void RunningPrograms::write_what_is_left() {
  output_.end();
  if (caller_ != nullptr) tell_caller({.kind = HostWords::Kind::ended});
  TimePoint read = clock_.now();
  while (output_.pending()) {
    const Duration left = processes_.interrupted() != 0 ? read + kUnread - clock_.now() : Duration(1h);
    if (left <= Duration::zero() || (caller_ != nullptr && caller_->is_gone())) return;
    processes_.wait(output_.looked_at(), caller_ != nullptr ? std::min<Duration>(left, kFulfilEvery) : left);
    if (output_.pass_on()) read = clock_.now();
    hear_caller();
    processes_.attend();
  }
}

}  // namespace

EndOfPrograms run_program_ranks(const ProgramRanks& job, const std::string& name) {
  return job.hosts.empty() ? RunningPrograms(job, name).run() : run_on_hosts(job, name);
}

}  // namespace stretto::command
