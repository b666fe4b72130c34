#include "command/run/hosts_of_job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "command/cli/output.h"
#include "command/cli/values.h"
#include "command/machine/programs.h"
#include "command/run/changing_job.h"
#include "command/run/host_launcher.h"
#include "command/run/output_of_ranks.h"
#include "command/run/program_start.h"
#include "command/run/why_not_started.h"
#include "stretto/base/error.h"
#include "stretto/base/version.h"
#include "stretto/membership/launch.h"
#include "stretto/membership/processes/job_processes.h"
#include "stretto/transport/job_memory.h"

namespace stretto::command {

namespace {

using namespace std::chrono_literals;

constexpr Duration kAttendEvery = 100ms;
constexpr Duration kMoreGrace = 2s;  // than the ranks have, for the hosts' launchers
constexpr Duration kForReader = 1s;  // without a reader, until output is dropped at the end
constexpr int kHostLost = 1;         // the exit status

// Of the login on a host, and not of the job.
constexpr std::string_view kOfALogin[] = {"HOME",  "USER",   "LOGNAME", "SHELL",   "HOSTNAME", "PWD", "OLDPWD",
                                          "SHLVL", "TMPDIR", "MAIL",    "DISPLAY", "_",        "TERM"};

bool is_of_a_login(std::string_view variable) {
  return std::ranges::find(kOfALogin, variable) != std::end(kOfALogin) || variable.starts_with("SSH_") ||
         variable.starts_with("XDG_");
}

/// What ranks on other hosts find of this process's environment, with the secret of the job.
std::vector<std::string> environment_for_hosts(const Token& token) {
  std::vector<std::string> entries;
  for (const std::string& entry : own_environment()) {
    const std::string_view variable = std::string_view(entry).substr(0, entry.find('='));
    if (!is_of_a_login(variable) && !is_of_a_starter(variable) && variable != JobSecret::kVariable) {
      entries.push_back(entry);
    }
  }
  entries.push_back(fmt::format("{}={}", JobSecret::kVariable, digits_of(token)));
  return entries;
}

class RunningHosts {
 public:
  RunningHosts(const ProgramRanks& job, std::string name)
      : job_(job),
        name_(std::move(name)),
        processes_({.ranks = static_cast<int>(job.hosts.size()),
                    .own_sessions = true,
                    .grace_after_interrupt = job.grace + kMoreGrace,
                    .ended = [this](int host, int wait_status) { ended(host, wait_status); },
                    .interrupted = [this] { return interrupted(); }}) {}

  EndOfPrograms run();

 private:
  struct Host {
    explicit Host(HostLauncher of) : launcher(std::move(of)) {}
    HostLauncher launcher;
    bool has_job = false, is_ready = false, beats = false, has_ended = false, is_lost = false;
    std::string refused = {};
  };

  void start(std::size_t host);
  /// Says how the job is to be there.
  void hand_over_job(std::size_t host);
  void hear(std::size_t host, const HostWords& words);
  void watch_once();
  /// `has_read`: what the hosts have said was read before.
  void watch_time(bool has_read);
  /// All are ready.
  void begin();
  void ended(int host, int wait_status);
  void host_is_lost(const Host& host, int wait_status);
  std::string why_not_begun(const Host& host, int wait_status) const;
  /// The remote shell's, as the name of a process.
  std::string shell_of(const Host& host) const;
  bool interrupted();
  void fail(int status);
  /// The job does not begin.
  void give_up(const std::string& why);
  bool is_needed();
  int exit_status();
  bool over() const { return failed_ || processes_.interrupted() != 0; }
  bool has_ended() { return changing_ && changing_->known().end != JobEnd::none; }
  void say_to_all(const CallerWords& words) {
    for (Host& host : hosts_) host.launcher.say(words);
  }
  void say(const std::string& line) { output_.put(one_line(fmt::format("{}: {}", name_, line)) + "\n", true); }

  const ProgramRanks& job_;
  const std::string name_;
  const SteadyClock clock_;
  OutputOfRanks output_;
  ProgramStart starter_;
  std::vector<Host> hosts_;
  std::vector<std::string> environment_;
  std::string run_id_;
  PlaceOfFirst place_;
  TimePoint ready_by_, beat_at_;
  bool has_begun_ = false, failed_ = false;
  int status_ = 0, lost_status_ = 0;
  std::optional<ChangingJob> changing_;  // where members change
  JobProcesses processes_;               // tells of ends until it is gone: the first to go
};

EndOfPrograms RunningHosts::run() {
  Token token = JobSecret::by_environment().value_or(new_token());
  if (job_.least > 0) {
    changing_.emplace(job_, ranks_of(job_.hosts), [this](const std::string& line) { say(line); });
    token = changing_->token();
    if (const auto before = changing_->ended_before()) {
      output_.pass_on();
      EndOfPrograms end{.status = *before == JobEnd::done ? 0 : 1};
      changing_->tell_end(end);
      return end;
    }
  }
  environment_ = environment_for_hosts(token);
  run_id_ = new_run_id();
  ready_by_ = clock_.now() + job_.answer_within;
  int first = 0;
  for (const HostRanks& host : job_.hosts) {
    hosts_.emplace_back(HostLauncher(host, first));
    first += host.ranks;
  }
  for (std::size_t host = 0; host < hosts_.size() && !over(); ++host) start(host);
  while (processes_.running() > 0 || is_needed()) watch_once();
  output_.end();
  for (const TimePoint until = clock_.now() + kForReader; output_.pending();) {
    if (output_.pass_on() ? false : over() && clock_.now() > until) break;
    processes_.wait(output_.looked_at(), kAttendEvery);
    processes_.attend();
  }
  EndOfPrograms end{.status = exit_status(), .first_lost = lost_status_, .interrupted = processes_.interrupted() != 0};
  if (changing_) changing_->tell_end(end);
  return end;
}

void RunningHosts::start(std::size_t host) {
  HostLauncher& launcher = hosts_[host].launcher;
  const std::vector<std::string> command = launcher.command(job_.rsh, job_.answer_within, job_.program.front());
  if (!starter_.open()) throw Failure(processes_.not_started(static_cast<int>(host), "pipe"));
  HostLauncher::Ends ends = launcher.open();
  std::vector<std::string> environment = own_environment();
  std::erase_if(environment, [](const std::string& entry) { return entry.starts_with("STRETTO_TOKEN="); });
  processes_.start(static_cast<int>(host), [&] { starter_.become(command, environment, ends.in.get(), ends.output); })
      .or_throw();
  starter_.be_parent();
  ends = HostLauncher::Ends();
  while (starter_.is_open()) {
    const int why = starter_.hear();
    if (why != 0) give_up(why_not_started(command.front(), why));
    if (starter_.is_open()) processes_.wait({starter_.looked_at()}, kAttendEvery);
  }
}

void RunningHosts::hand_over_job(std::size_t host) {
  const HostLauncher& launcher = hosts_[host].launcher;
  ProgramRanks job = job_;
  job.here = launcher.ranks();
  job.on_host = {.first = launcher.first(),
                 .host = static_cast<int>(host),
                 .hosts = static_cast<int>(hosts_.size()),
                 .run_id = run_id_};
  if (changing_) job.job = changing_->address();
  std::error_code none;
  hosts_[host].launcher.say({.kind = CallerWords::Kind::job,
                             .job = job,
                             .environment = environment_,
                             .folder = std::filesystem::current_path(none).string()});
}

void RunningHosts::hear(std::size_t at, const HostWords& words) {
  Host& host = hosts_[at];
  using Kind = HostWords::Kind;
  switch (words.kind) {
    case Kind::ready:
      host.is_ready = true;
      if (at == 0) place_ = words.place;
      break;
    case Kind::refused: host.refused = words.words; break;
    case Kind::out: output_.put(words.words); break;
    case Kind::errors: output_.put(words.words, true); break;
    case Kind::failed:
      if (!changing_ && !over()) fail(words.number);
      break;
    case Kind::ended: host.has_ended = true; break;
    case Kind::beat: host.beats = true; break;
  }
}

void RunningHosts::watch_once() {
  std::vector<pollfd> looked_at = output_.looked_at();
  const bool has_room = output_.has_room();
  for (const Host& host : hosts_) host.launcher.look_at(looked_at, has_room);
  processes_.wait(std::move(looked_at), kAttendEvery);
  for (std::size_t at = 0; at < hosts_.size(); ++at) {
    HostLauncher& launcher = hosts_[at].launcher;
    launcher.exchange(output_, has_room, [this, at](const HostWords& words) { hear(at, words); });
    if (hosts_[at].has_job || over() || !launcher.has_said_hello()) continue;
    if (launcher.version() != stretto_version()) {
      give_up(fmt::format("host {} has Stretto {}, and this is {}: expected the same", launcher.name(),
                          one_line(launcher.version()), stretto_version()));
      continue;
    }
    hosts_[at].has_job = true;
    hand_over_job(at);
  }
  output_.pass_on();
  processes_.attend();
  if (changing_) {
    changing_->fulfil_wishes([](MemberNumber, JobOfMembers::Fate) {}, [this](const std::string& line) { say(line); });
  }
  watch_time(has_room);
}

void RunningHosts::watch_time(bool has_read) {
  const TimePoint now = clock_.now();
  if (!output_.is_read() && !over()) {
    say("nobody reads what the ranks write: they are ended");
    fail(128 + SIGPIPE);
  }
  if (!has_begun_ && !over()) {
    if (std::ranges::all_of(hosts_, &Host::is_ready)) {
      begin();
    } else if (now > ready_by_) {
      std::vector<std::string> silent;
      for (const Host& host : hosts_) {
        if (!host.is_ready) silent.push_back(host.launcher.name());
      }
      give_up(fmt::format("no answer within {} s from {}: expected a host that lets {} in without a question",
                          seconds(job_.answer_within), fmt::join(silent, ", "), job_.rsh));
    }
  }
  if (now < beat_at_) return;
  beat_at_ = now + job_.liveness / kBeatsInLiveness;
  for (std::size_t at = 0; at < hosts_.size(); ++at) {
    Host& host = hosts_[at];
    if (host.has_job) host.launcher.say({});
    const bool is_silent = host.beats && !host.has_ended && now - host.launcher.heard_at() > job_.liveness;
    if (!is_silent || host.is_lost || !has_read) continue;
    host.is_lost = true;
    processes_.send(static_cast<int>(at), SIGKILL);
  }
}

void RunningHosts::begin() {
  has_begun_ = true;
  say_to_all({.kind = CallerWords::Kind::begin, .place = place_});
}

std::string RunningHosts::shell_of(const Host& host) const {
  return host.launcher.is_here() ? "its launcher" : job_.rsh;
}

std::string RunningHosts::why_not_begun(const Host& host, int wait_status) const {
  if (!host.refused.empty()) return fmt::format("host {}: {}", host.launcher.name(), host.refused);
  const std::string said = host.launcher.last_of_shell();
  const RankFate fate{.kind = RankFate::Kind::lost, .wait_status = wait_status};
  return fmt::format("host {}: {} has ended before Stretto was ready there: {}{}{}", host.launcher.name(),
                     shell_of(host), fate.to_string(), said.empty() ? "" : ": ", said);
}

void RunningHosts::ended(int at, int wait_status) {
  Host& host = hosts_[static_cast<std::size_t>(at)];
  host.launcher.end(output_, [this, at](const HostWords& words) { hear(static_cast<std::size_t>(at), words); });
  if (!has_begun_) {
    if (!over()) give_up(why_not_begun(host, wait_status));
    return;
  }
  if (!host.has_ended) {
    if (!over() && !has_ended()) host_is_lost(host, wait_status);
    return;
  }
  const int status = exit_status_of(wait_status);
  if (status == 0 || over()) return;
  if (!changing_) return fail(status);
  if (lost_status_ == 0) lost_status_ = status;
}

void RunningHosts::host_is_lost(const Host& host, int wait_status) {
  const RankFate fate{.kind = RankFate::Kind::lost, .wait_status = wait_status};
  const std::string why = host.is_lost
                              ? fmt::format("nothing has come from it for {} s", seconds(job_.liveness))
                              : fmt::format("{} has ended before its ranks: {}", shell_of(host), fate.to_string());
  if (changing_) {
    if (lost_status_ == 0) lost_status_ = kHostLost;
    return say(fmt::format("host {} is lost: {}; the others go on", host.launcher.name(), why));
  }
  say(fmt::format("host {} is lost, with {} of {}: {}{}", host.launcher.name(), host.launcher.ranks_in_words(),
                  job_.ranks, why, processes_.running() > 0 ? "; the others are ended" : ""));
  fail(kHostLost);
}

bool RunningHosts::interrupted() {
  if (!has_begun_) {
    processes_.kill_within(Duration::zero());
    return false;
  }
  say(fmt::format("SIG{} is passed on to the ranks; a second signal kills them",
                  sigabbrev_np(processes_.interrupted())));
  say_to_all({.kind = CallerWords::Kind::signal, .number = processes_.interrupted()});
  return false;
}

void RunningHosts::fail(int status) {
  failed_ = true;
  status_ = status;
  say_to_all({.kind = CallerWords::Kind::end});
  processes_.kill_within(job_.grace + kMoreGrace);
}

void RunningHosts::give_up(const std::string& why) {
  say(why);
  failed_ = true;
  status_ = kHostLost;
  processes_.kill_within(Duration::zero());
}

/// Members that were started elsewhere need the master that is here, and hear of the end.
bool RunningHosts::is_needed() {
  if (!changing_ || over()) return false;
  return has_ended() ? changing_->is_awaited() : changing_->is_visited();
}

int RunningHosts::exit_status() {
  if (changing_) {
    const Registered job = changing_->known();
    if (job.end == JobEnd::done) return 0;
    if (job.view.epoch == 0 && !over()) {
      print_to(stderr, fmt::format("{}: no rank has come to the job, whose members may change: was --ranks {} meant?\n",
                                   name_, job_.ranks));
    }
  }
  if (failed_) return status_;
  return processes_.interrupted() != 0 ? 128 + processes_.interrupted() : lost_status_;
}

}  // namespace

EndOfPrograms run_on_hosts(const ProgramRanks& job, const std::string& name) {
  return RunningHosts(job, name).run();
}

void check_hosts(ProgramRanks& job) {
  const int seats = ranks_of(job.hosts);
  if (job.here) throw UsageError(fmt::format("--here {} with --hosts: expected HOST:{}", *job.here, *job.here));
  if (job.ranks == 0) job.ranks = seats;
  if (job.ranks > seats && !job.listen) {
    throw UsageError(
        fmt::format("--ranks {} on hosts with {}: expected more behind one of them, as in {}:{}",
                    job.least > 0 ? fmt::format("{}:{}", job.least, job.ranks) : fmt::format("{}", job.ranks), seats,
                    job.hosts.back().name, job.hosts.back().ranks + job.ranks - seats));
  }
  if (job.least == 0) {
    job.hosts = first_ranks(std::move(job.hosts), job.ranks);
  } else if (!job.listen) {
    job.listen = JobAddress{};
  }
  const bool all_are_here = std::ranges::all_of(job.hosts, &HostRanks::is_here);
  if (!all_are_here && job.listen && (job.listen->host == "127.0.0.1" || job.listen->host == "localhost")) {
    throw UsageError(
        fmt::format("--listen {}: other hosts cannot come there; expected an address that they reach, or "
                    "the port alone",
                    job.listen->to_string()));
  }
  if (job.rsh.empty()) {
    const char* const wanted = std::getenv("STRETTO_RSH");
    job.rsh = wanted != nullptr && *wanted != '\0' ? wanted : "ssh";
  }
  if (all_are_here) return;
  const std::vector<std::string> words = words_of_shell(job.rsh);
  const std::string program = words.empty() ? "" : words.front();
  const bool is_path = program.find('/') != std::string::npos;
  if (program.empty() || (is_path ? ::access(program.c_str(), X_OK) != 0 : find_on_path(program).empty())) {
    throw UsageError(
        fmt::format("--rsh {}: there is no such program{}; expected one that runs a command on a host, as "
                    "in --rsh ssh",
                    job.rsh, is_path ? "" : " on PATH"));
  }
}

}  // namespace stretto::command
