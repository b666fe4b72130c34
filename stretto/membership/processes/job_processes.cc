#include "stretto/membership/processes/job_processes.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <set>
#include <utility>

#include "stretto/base/machine/process_limits.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

/// The guard of own_sessions: keeps the groups that it is told of, −group once a group is no more, and kills them when
/// the process that tells it has ended. In a session of its own it outlives what a terminal sends.
[[noreturn]] void guard_groups(int from_launcher) {
  setsid();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) std::signal(signal, SIG_IGN);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, file);  // others may wait for its end
  std::set<pid_t> groups;
  while (true) {
    pid_t word = 0;
    const ssize_t bytes = recv(from_launcher, &word, sizeof(word), 0);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes != static_cast<ssize_t>(sizeof(word))) break;
    if (word > 0) groups.insert(word);
    groups.erase(-word);
  }
  for (const pid_t group : groups) kill(-group, SIGKILL);
  _exit(0);
}

}  // namespace

int exit_status_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

JobProcesses::JobProcesses(Options options)
    : options_(std::move(options)), processes_(static_cast<std::size_t>(options_.ranks)) {
  if (!options_.own_sessions) return;
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // what a rank leaves behind is reaped here, and no zombie keeps its group
  start_guard();
}

JobProcesses::~JobProcesses() {
  killing_ = true;
  send_all(SIGKILL);
  while (running_ > 0) reap(0);
  if (!options_.own_sessions) return;
  if (guard_ > 0) kill(guard_, SIGKILL);
  while (guard_ > 0 && waitpid(guard_, nullptr, 0) < 0 && errno == EINTR) {
  }
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

/// Without a guard, where none can be started, ranks themselves still die with this process.
void JobProcesses::start_guard() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return;
  to_guard_ = Descriptor(ends[0]);
  const Descriptor from_launcher(ends[1]);
  guard_ = fork();
  if (guard_ != 0) return;
  to_guard_.close();
  signals_.restore();
  guard_groups(from_launcher.get());
}

void JobProcesses::tell_guard(pid_t word) const {
  ::send(to_guard_.get(), &word, sizeof(word), MSG_NOSIGNAL);
}

Error JobProcesses::not_started(int rank, const char* call) const {
  return {Errc::io, text("cannot start rank ", rank, " of ", options_.ranks, ": ", call, ": ", why_no_process(errno)),
          rank};
}

Result<void> JobProcesses::start(int rank, const std::function<void()>& live) {
  if (!is_one(rank)) processes_.resize(static_cast<std::size_t>(rank) + 1);
  if (signals_.fd() < 0) return not_started(rank, "signalfd");
  const pid_t parent = getpid();
  const pid_t id = fork();
  if (id < 0) return not_started(rank, "fork");
  if (id == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);  // the parent died before this child had asked to die with it
    if (options_.own_sessions) {
      setsid();
      tell_guard(getpid());
      to_guard_.close();  // the guard hears of the end of the last process that has it
      signals_.restore();
    } else {
      signals_.leave_to_parent();
    }
    live();
    _exit(1);
  }
  processes_[static_cast<std::size_t>(rank)] = {.id = id, .group = options_.own_sessions ? id : 0};
  ++running_;
  return {};
}

pid_t JobProcesses::process(int rank) const {
  return is_one(rank) ? processes_[static_cast<std::size_t>(rank)].id : 0;
}

void JobProcesses::wait(std::vector<pollfd> looked_at, Duration limit) {
  looked_at.push_back({signals_.fd(), POLLIN, 0});
  const Duration time = std::clamp<Duration>(std::min(limit, kill_at_ - clock_.now()), 0ms, 1h);
  ::poll(looked_at.data(), looked_at.size(), static_cast<int>((time + 999us) / 1ms));
}

void JobProcesses::attend() {
  if (const int signal = signals_.take(); signal != 0) interrupt(signal);
  reap(WNOHANG);
  const TimePoint now = clock_.now();
  for (Process& process : processes_) {
    if (now < process.kill_at) continue;
    process.kill_at = TimePoint::never();
    send(process, SIGKILL);
  }
  if (now < kill_at_) return;
  kill_at_ = TimePoint::never();
  killing_ = true;
  send_all(SIGKILL);
}

void JobProcesses::reap(int flags) {
  const auto each = [&](auto&& visit) {
    for (std::size_t rank = 0; rank < processes_.size(); ++rank) visit(static_cast<int>(rank), processes_[rank]);
  };
  std::vector<std::pair<int, int>> ends;  // ranks and their wait statuses
  const auto ended = [&](int rank, Process& process, int wait_status) {
    process.id = 0;
    --running_;
    ends.emplace_back(rank, wait_status);
  };
  const auto tell = [&] {
    // Of ranks that are found ended at the same time, those that fail may have failed because another was killed.
    std::stable_partition(ends.begin(), ends.end(), [](const auto& end) { return WIFSIGNALED(end.second); });
    for (const auto& [rank, wait_status] : ends) options_.ended(rank, wait_status);
  };
  if (!options_.own_sessions) {
    each([&](int rank, Process& process) {
      if (process.id == 0) return;
      int status = 0;
      const pid_t reaped = waitpid(process.id, &status, flags);
      if (reaped == 0 || (reaped < 0 && errno == EINTR)) return;
      ended(rank, process, reaped > 0 ? status : 1 << 8);
    });
    return tell();
  }
  int status = 0;
  pid_t reaped = 0;
  while (running_ > 0 || flags == WNOHANG) {
    reaped = waitpid(-1, &status, flags);  // a rank, or what one has left behind
    if (reaped < 0 && errno == EINTR) continue;
    if (reaped <= 0) break;
    each([&](int rank, Process& process) {
      if (process.id == reaped) ended(rank, process, status);
    });
    if (reaped == guard_) guard_ = 0;
  }
  tell();
  // A number is not given to another group as long as a process of this one is there, so it is given up at once then.
  each([&](int, Process& process) {
    if (process.id != 0 || process.group == 0 || kill(-process.group, 0) == 0) return;
    tell_guard(-std::exchange(process.group, 0));
  });
}

/// Of the first signal the ranks hear, and have time to end; at the second one they are killed at once.
void JobProcesses::interrupt(int signal) {
  if (interrupted_ != 0) {
    kill_within(Duration::zero());
    return;
  }
  interrupted_ = signal;
  const bool pass_on = options_.interrupted();
  kill_within(options_.grace_after_interrupt);
  if (pass_on) send_all(options_.own_sessions ? signal : SIGTERM);
}

bool JobProcesses::left() const {
  return std::ranges::any_of(processes_, [](const Process& process) { return process.id == 0 && process.group != 0; });
}

void JobProcesses::send(const Process& process, int signal) {
  const bool by_group = process.group != 0 && kill(-process.group, signal) == 0;
  if (!by_group && process.id != 0) kill(process.id, signal);  // it may not lead its group yet
}

void JobProcesses::send_all(int signal) {
  for (const Process& process : processes_) send(process, signal);
}

void JobProcesses::send(int rank, int signal) {
  if (process(rank) != 0) send(processes_[static_cast<std::size_t>(rank)], signal);
}

void JobProcesses::kill_within(Duration grace) {
  const TimePoint now = clock_.now();
  if (grace < TimePoint::never() - now) kill_at_ = std::min(kill_at_, now + grace);
}

void JobProcesses::end_member(int rank, Duration grace) {
  if (process(rank) == 0) return;
  TimePoint& kill_at = processes_[static_cast<std::size_t>(rank)].kill_at;
  kill_at = std::min<TimePoint>(kill_at, clock_.now() + grace);
}

}  // namespace stretto
