#include "command/run/program_ranks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "command/cli/output.h"
#include "command/run/output_of_ranks.h"
#include "command/run/rank_environment.h"
#include "stretto/base/error.h"
#include "stretto/base/machine/process_limits.h"
#include "stretto/membership/job_master.h"
#include "stretto/membership/job_processes.h"
#include "stretto/membership/views/member_place.h"
#include "stretto/transport/job_memory.h"

namespace stretto::command {

namespace {

using namespace std::chrono_literals;

constexpr int kNoSuchProgram = 127, kNotExecutable = 126;  // as shells have them
constexpr Duration kLeftAfterKill = 1s;   // until what has been killed, and is not seen to be gone, is left alone
constexpr Duration kUnread = 1s;          // without a reader, until output is dropped after a signal
constexpr Duration kTellEvery = 1s;       // what is left behind that it is to end
constexpr Duration kForAnother = 5min;    // process to come in the place of a lost one
constexpr Duration kForOneInPlace = 10s;  // of one that leaves: it may have little time
constexpr Duration kFulfilEvery = 100ms;  // what the master wishes
constexpr Duration kLookEvery = 20ms;     // at what ranks have left behind, which may end unheard

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

bool is_file(const std::string& path) {
  std::error_code none;
  return std::filesystem::is_regular_file(path, none);
}

/// Why execvp() has failed on a program, as a sentence.
std::string why_not_started(const std::string& program, int error) {
  const bool by_path = program.find('/') != std::string::npos;
  if (error == ENOENT && by_path && is_file(program)) {
    return fmt::format("{}: the interpreter that its first line names is not there", program);
  }
  std::string hint;
  if (is_file(program) && program.ends_with(".py")) {
    hint = fmt::format("; did you mean -- python {}?", program);
  } else if (!by_path && is_file(program)) {
    hint = fmt::format("; did you mean ./{}?", program);
  }
  if (error == ENOENT) return fmt::format("{}: there is no such program{}{}", program, by_path ? "" : " on PATH", hint);
  if (error == EACCES) return fmt::format("{}: it cannot be run (no executable file){}", program, hint);
  return fmt::format("{}: it cannot be run: {}", program, why_no_process(error));
}

/// While it lives, a write to a pipe that nobody reads is an error.
class NoPipeSignal {
 public:
  NoPipeSignal() : before_(std::signal(SIGPIPE, SIG_IGN)) {}
  ~NoPipeSignal() { restore(); }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;
  void restore() const { std::signal(SIGPIPE, before_); }

 private:
  void (*before_)(int);
};

/// A rank whose process is lost, until another one takes its place.
struct LostPlace {
  int rank = 0;
  int status = 0;  // of the process
};

class RunningPrograms {
 public:
  RunningPrograms(const ProgramRanks& job, std::string name)
      : job_(job),
        name_(std::move(name)),
        environment_(job.ranks, own_environment()),
        restarts_left_(job.restarts),
        processes_({.ranks = job.ranks + job.restarts,
                    .own_sessions = true,
                    .grace_after_interrupt = job.grace,
                    .ended = [this](int rank, int wait_status) { ended(rank, wait_status); },
                    .interrupted = [this] { interrupted(); }}) {}

  int run();

 private:
  /// Starts the process of this number, in the place of a rank.
  void start(int number, int rank);
  /// The processes that are to take the places of lost ones.
  void start_others();
  /// No process can take this place, or any other from now on.
  void leave_empty(const LostPlace& lost, const std::string& why);
  [[noreturn]] void become(const std::vector<char*>& arguments, const std::vector<char*>& environment, int input,
                           const OutputOfRanks::Ends& output, int answer) const;
  /// Takes word of the program of the rank that is being started: nothing comes once it runs.
  void hear_start();
  void watch_once(Duration limit, std::vector<pollfd> also = {});
  void ended(int number, int wait_status);
  /// A process has ended with another status than 0, where members change. Returns whether the others go on.
  bool go_on_without(int number, int status, const RankFate& fate);
  /// What the loss of a process that the others do not go on without means, to be said behind it.
  std::string consequence_of_loss();
  void fail(int status);
  /// The rank that a process is, and its number where it is not the same.
  std::string name_of(int number) const;
  /// The process of a member; 0: none of these.
  pid_t process_of(MemberNumber number) const {
    return number < rank_of_.size() ? processes_.process(static_cast<int>(number)) : 0;
  }
  void interrupted() const;
  void end_what_is_left();
  void write_what_is_left();
  bool over() const { return failed_ || cannot_start_ != 0 || processes_.interrupted() != 0; }
  void say(const std::string& line) const { print_to(stderr, one_line(fmt::format("{}: {}", name_, line)) + "\n"); }

  const ProgramRanks& job_;
  const std::string name_;
  const NoPipeSignal no_signal_;
  const SteadyClock clock_;
  const RankEnvironment environment_;
  OutputOfRanks output_;
  int starting_ = -1;  // the process whose program is not known to run
  Descriptor answer_;  // what it says
  int cannot_start_ = 0;
  bool failed_ = false;
  int status_ = 0;
  std::vector<int> rank_of_;         // the place of each process
  std::vector<LostPlace> to_start_;  // another process for each
  int restarts_left_;                // not counting those
  const Token token_ = new_token();
  std::optional<JobMaster> master_;  // where members change
  JobProcesses processes_;           // tells of ends until it is gone: the first to go
};

int RunningPrograms::run() {
  if (job_.least > 0) {
    // While one may be started again too few are waited for.
    const bool others_come = job_.restarts > 0;
    master_.emplace(JobMaster::Options{.token = token_,
                                       .least = job_.least,
                                       .most = job_.ranks,
                                       .wait = others_come ? kForAnother : Duration(0),
                                       .wait_to_leave = others_come ? kForOneInPlace : Duration(0)});
  }
  for (int rank = 0; rank < job_.ranks && !over(); ++rank) start(rank, rank);
  if (cannot_start_ != 0) {
    say(why_not_started(job_.program[0], cannot_start_));
    return cannot_start_ == ENOENT || cannot_start_ == ENOTDIR ? kNoSuchProgram : kNotExecutable;
  }
  while (processes_.running() > 0 || !to_start_.empty()) {
    start_others();
    if (processes_.running() > 0) watch_once(1h);
  }
  end_what_is_left();
  write_what_is_left();
  if (master_) {
    const Registered job = master_->known();
    if (job.end == JobEnd::done) return 0;
    if (job.view.epoch == 0 && !over()) {
      say(fmt::format("no rank has come to the job, whose members may change: was --ranks {} meant?", job_.ranks));
    }
  }
  if (failed_) return status_;
  return processes_.interrupted() == 0 ? 0 : 128 + processes_.interrupted();
}

/// Others may be lost while a process is started. So a place leaves the list as its process gets a number: all count.
void RunningPrograms::start_others() {
  while (!to_start_.empty() && !over() && master_->known().end == JobEnd::none) {
    const LostPlace lost = to_start_.front();
    to_start_.erase(to_start_.begin());
    std::string why;
    try {
      start(static_cast<int>(rank_of_.size()), lost.rank);
      if (cannot_start_ != 0) why = why_not_started(job_.program[0], std::exchange(cannot_start_, 0));
      while (!why.empty() && processes_.process(starting_) != 0) watch_once(1h);  // else it counts as one that is left
    } catch (const Failure& failure) {
      why = failure.what();
    }
    if (!why.empty()) leave_empty(lost, why);
  }
  to_start_.clear();
}

void RunningPrograms::leave_empty(const LostPlace& lost, const std::string& why) {
  to_start_.clear();
  restarts_left_ = 0;
  if (over()) return;
  const bool enough = processes_.running() >= job_.least;
  say(fmt::format("no process takes the place of rank {}: {}{}", lost.rank, why,
                  enough ? "; the others go on" : consequence_of_loss()));
  if (!enough) fail(lost.status);
}

void RunningPrograms::start(int number, int rank) {
  rank_of_.push_back(rank);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw Failure(processes_.not_started(number, "pipe"));
  answer_ = Descriptor(ends[0]);
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  Descriptor to_parent(ends[1]);
  OutputOfRanks::Ends output;
  if (job_.tag) output = output_.add(fmt::format("[rank {}] ", rank));
  std::vector<std::string> variables = environment_.of(rank);
  if (master_) {
    const MemberPlace place{.port = master_->port(),
                            .number = static_cast<MemberNumber>(number),
                            .place = rank,
                            .most = job_.ranks,
                            .token = token_};
    variables.push_back(fmt::format("{}={}", MemberPlace::kVariable, place.encoded()));
  }
  const std::vector<char*> arguments = pointers_to(job_.program), environment = pointers_to(variables);
  const Descriptor nothing(rank == 0 ? -1 : ::open("/dev/null", O_RDONLY | O_CLOEXEC));
  starting_ = number;
  processes_.start(number, [&] { become(arguments, environment, nothing.get(), output, to_parent.get()); }).or_throw();
  to_parent.close();
  while (answer_.get() >= 0) {
    hear_start();
    if (answer_.get() >= 0) watch_once(1h, {{answer_.get(), POLLIN, 0}});
  }
}

/// What the process of a rank does. The program finds signals as this process has found them.
void RunningPrograms::become(const std::vector<char*>& arguments, const std::vector<char*>& environment, int input,
                             const OutputOfRanks::Ends& output, int answer) const {
  if (input >= 0) ::dup2(input, STDIN_FILENO);
  if (output.out.get() >= 0) ::dup2(output.out.get(), STDOUT_FILENO);
  if (output.errors.get() >= 0) ::dup2(output.errors.get(), STDERR_FILENO);
  no_signal_.restore();
  std::signal(SIGXFSZ, SIG_DFL);
  ::execvpe(arguments[0], arguments.data(), environment.data());
  const int why = errno;
  [[maybe_unused]] const ssize_t written = ::write(answer, &why, sizeof(why));
  ::_exit(kNoSuchProgram);
}

void RunningPrograms::hear_start() {
  if (answer_.get() < 0) return;
  const ssize_t bytes = ::read(answer_.get(), &cannot_start_, sizeof(cannot_start_));
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
  answer_.close();
  if (cannot_start_ == 0) starting_ = -1;
}

void RunningPrograms::watch_once(Duration limit, std::vector<pollfd> also) {
  for (const pollfd& looked_at : output_.looked_at()) also.push_back(looked_at);
  processes_.wait(std::move(also), master_ ? std::min<Duration>(limit, kFulfilEvery) : limit);
  output_.pass_on();
  processes_.attend();
  if (!master_) return;
  master_->fulfil_wishes(processes_, [this](const std::string& line) { say(line); });
}

void RunningPrograms::ended(int number, int wait_status) {
  if (number == starting_) hear_start();
  if (number == starting_) return;  // it has not become the program
  if (master_) master_->lose(static_cast<MemberNumber>(number));
  const int status = exit_status_of(wait_status);
  const RankFate fate{.kind = RankFate::Kind::lost, .wait_status = wait_status};
  if (processes_.killing() && status == 128 + SIGKILL) say(fmt::format("{} had not ended: killed", name_of(number)));
  if (master_ && !over() && master_->known().view.has_departed(static_cast<MemberNumber>(number))) {
    return say(fmt::format("{} has left{}", name_of(number), status == 0 ? "" : fmt::format(": {}", fate.to_string())));
  }
  if (status == 0 || over()) return;
  if (master_ && master_->known().end == JobEnd::done) {
    return say(fmt::format("{} is lost: {}; the others have reached the end", name_of(number), fate.to_string()));
  }
  if (master_ && go_on_without(number, status, fate)) return;
  say(fmt::format("{} of {}: {}{}", name_of(number), job_.ranks, fate.to_string(), consequence_of_loss()));
  fail(status);
}

bool RunningPrograms::go_on_without(int number, int status, const RankFate& fate) {
  if (master_->known().end != JobEnd::none) return false;
  // At the beginning others may not have been started yet.
  const int next = std::max(static_cast<int>(rank_of_.size()), job_.ranks);
  const int to_come = next - static_cast<int>(rank_of_.size()) + static_cast<int>(to_start_.size());
  const int left = processes_.running() + to_come;
  if (restarts_left_ == 0 && left < job_.least) return false;
  std::string then = "the others go on";
  if (restarts_left_ > 0) {
    then = fmt::format("another process takes its place, as member {}", next + to_start_.size());
    to_start_.push_back({rank_of_[static_cast<std::size_t>(number)], status});
    --restarts_left_;
  }
  say(fmt::format("{} is lost: {}; {}", name_of(number), fate.to_string(), then));
  return true;
}

std::string RunningPrograms::consequence_of_loss() {
  if (master_) {
    const Registered job = master_->known();
    const bool is_there = std::ranges::any_of(
        job.view.members, [this](const PlacedMember& member) { return process_of(member.number) != 0; });
    if (job.end == JobEnd::given_up && !is_there) return "; the job is over: nobody is left who has its model";
  }
  return processes_.running() > 0 ? "; the others are ended" : "";
}

void RunningPrograms::fail(int status) {
  failed_ = true;
  status_ = status;
  processes_.kill_within(job_.grace);
  processes_.send_all(SIGTERM);
}

std::string RunningPrograms::name_of(int number) const {
  const int rank = rank_of_[static_cast<std::size_t>(number)];
  return rank == number ? fmt::format("rank {}", rank) : fmt::format("rank {} (member {})", rank, number);
}

void RunningPrograms::interrupted() const {
  say(fmt::format("SIG{} is passed on to the ranks; a second signal kills them",
                  sigabbrev_np(processes_.interrupted())));
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
  TimePoint read = clock_.now();
  while (output_.pending()) {
    const Duration left = processes_.interrupted() != 0 ? read + kUnread - clock_.now() : Duration(1h);
    if (left <= Duration::zero()) return;
    processes_.wait(output_.looked_at(), left);
    if (output_.pass_on()) read = clock_.now();
    processes_.attend();
  }
}

}  // namespace

int run_program_ranks(const ProgramRanks& job, const std::string& name) {
  return RunningPrograms(job, name).run();
}

}  // namespace stretto::command
