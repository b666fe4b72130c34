#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <iostream>
#include <optional>
#include <string_view>

#include "stretto/membership/job.h"
#include "stretto/transport/job_memory.h"
#include "stretto/transport/shm.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

static_assert(RankContext::kNumCounters == JobMemory::kNumCounters);

constexpr Duration kTick = 100ms;

/// A descriptor that is closed with its owner.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    close();
    fd_ = other.release();
    return *this;
  }
  ~Descriptor() { close(); }

  int get() const { return fd_; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }

  int fd_;
};

/// A report on its way: its length in eight bytes, then itself, so that half a report is told from a whole one.
void write_report(int fd, const std::string& report) {
  const std::uint64_t bytes = report.size();
  const std::string_view parts[] = {{reinterpret_cast<const char*>(&bytes), sizeof(bytes)}, report};
  for (std::string_view part : parts) {
    while (!part.empty()) {
      const ssize_t n = ::write(fd, part.data(), part.size());
      if (n < 0 && errno != EINTR) return;  // nobody is there to read it
      if (n > 0) part.remove_prefix(static_cast<std::size_t>(n));
    }
  }
}

std::string parse_report(const std::string& in) {
  std::uint64_t bytes = 0;
  if (in.size() < sizeof(bytes)) return {};
  std::memcpy(&bytes, in.data(), sizeof(bytes));
  return in.size() - sizeof(bytes) == bytes ? in.substr(sizeof(bytes)) : std::string();
}

class ShmRankContext final : public RankContext {
 public:
  ShmRankContext(JobMemory& memory, int rank, int report_fd)
      : memory_(memory), transport_(memory, rank), report_fd_(report_fd) {
    for (int i = 0; i < kNumCounters; ++i) counters_.emplace_back(memory.counter(i));
  }

  Transport& transport() override { return transport_; }
  SharedCounter& counter(int index) override { return counters_.at(static_cast<std::size_t>(index)); }
  std::span<std::byte> extra() override { return memory_.extra(); }
  bool interrupted() override { return memory_.interrupted(); }
  void report(std::string text) override { write_report(report_fd_, text); }

 private:
  JobMemory& memory_;
  ShmTransport transport_;
  std::deque<MemoryCounter> counters_;
  const int report_fd_;
};

/// While it lives, the signals that a launcher wants to hear of come out of a descriptor instead. A signal that this
/// process ignores (a job in the background) stays ignored.
class Signals {
 public:
  Signals() {
    sigemptyset(&heard_);
    for (const int signal : {SIGINT, SIGTERM}) {
      struct sigaction action {};
      sigaction(signal, nullptr, &action);
      if (action.sa_handler != SIG_IGN) sigaddset(&heard_, signal);
    }
    sigaddset(&heard_, SIGCHLD);
    struct sigaction by_default {};
    by_default.sa_handler = SIG_DFL;  // ignored, children would vanish without a status
    sigaction(SIGCHLD, &by_default, &on_child_);
    sigprocmask(SIG_BLOCK, &heard_, &mask_);
    fd_ = Descriptor(signalfd(-1, &heard_, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  ~Signals() { restore(); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int fd() const { return fd_.get(); }

  /// Whether SIGINT or SIGTERM has come since the last call.
  bool take_interrupt() {
    bool interrupt = false;
    signalfd_siginfo signal;
    while (::read(fd_.get(), &signal, sizeof(signal)) == static_cast<ssize_t>(sizeof(signal))) {
      interrupt |= signal.ssi_signo != SIGCHLD;
    }
    return interrupt;
  }

  /// Gives the signals back; also in a child, which has inherited the mask.
  void restore() {
    if (fd_.get() < 0) return;
    fd_.close();
    sigaction(SIGCHLD, &on_child_, nullptr);
    sigprocmask(SIG_SETMASK, &mask_, nullptr);
  }

 private:
  sigset_t heard_;
  sigset_t mask_;
  struct sigaction on_child_ {};
  Descriptor fd_;
};

/// Starts the ranks of one job, watches them, and sees to it that none is left.
class Launcher {
 public:
  Launcher(const JobOptions& options, const RankMain& main, JobMemory& memory)
      : options_(options), main_(main), memory_(memory), children_(static_cast<std::size_t>(options.ranks)) {}
  ~Launcher() {
    send_all(SIGKILL);
    while (running_ > 0) reap(0);
  }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  Result<JobResult> run();

 private:
  struct Child {
    pid_t process = 0;  // 0 before it is there and after it has been reaped
    Descriptor report;
    std::string report_bytes;
    int status = 0;
  };

  Result<void> start(int rank);
  [[noreturn]] void be(int rank, pid_t parent, int report_fd);
  void watch_once();
  void drain_report(Child& child);
  void reap(int options);
  void ended(int rank, int wait_status);
  void interrupt();
  void kill_within(Duration patience) {
    const TimePoint now = clock_.now();
    if (patience < TimePoint::never() - now) kill_at_ = std::min(kill_at_, now + patience);
  }
  void send_all(int signal) {
    for (const Child& child : children_) {
      if (child.process != 0) kill(child.process, signal);
    }
  }

  const JobOptions& options_;
  const RankMain& main_;
  JobMemory& memory_;
  const SteadyClock clock_;
  Signals signals_;
  std::vector<Child> children_;
  int running_ = 0;
  TimePoint kill_at_ = TimePoint::never();
  bool killing_ = false;  // whoever dies from now on dies by us
  TimePoint tick_at_;
  JobResult result_;
};

Result<JobResult> Launcher::run() {
  if (signals_.fd() < 0) return Error{Errc::io, text("cannot watch processes: signalfd: ", std::strerror(errno))};
  memory_.set_watched();
  std::fflush(nullptr);  // or each child would write it again
  std::cout.flush();
  for (int rank = 0; rank < options_.ranks; ++rank) {
    if (auto started = start(rank); !started) return started.error();
  }
  while (running_ > 0) watch_once();
  for (Child& child : children_) {
    drain_report(child);
    result_.exit_status.push_back(child.status);
    result_.reports.push_back(parse_report(child.report_bytes));
  }
  return std::move(result_);
}

Result<void> Launcher::start(int rank) {
  Child& child = children_[static_cast<std::size_t>(rank)];
  const auto failed = [&](const char* call) {
    return Error{Errc::io,
                 text("cannot start rank ", rank, " of ", options_.ranks, ": ", call, ": ", std::strerror(errno)),
                 rank};
  };
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return failed("pipe");
  child.report = Descriptor(ends[0]);
  const Descriptor to_parent(ends[1]);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  const pid_t parent = getpid();
  const pid_t process = fork();
  if (process < 0) return failed("fork");
  if (process == 0) be(rank, parent, ends[1]);
  child.process = process;
  memory_.enter(rank, process);
  ++running_;
  return {};
}

/// The life of a rank.
void Launcher::be(int rank, pid_t parent, int report_fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the parent died before it could take us along
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGTERM, SIG_DFL);
  signals_.restore();
  for (Child& child : children_) child.report.close();
  int status = 1;
  try {
    ShmRankContext context(memory_, rank, report_fd);
    status = main_(context);
  } catch (const std::exception& error) {
    std::cerr << text("stretto: rank ", rank, ": ", error.what(), "\n");
  }
  std::cout.flush();
  std::fflush(nullptr);
  if (status == 0) memory_.leave(rank);
  _exit(status);
}

/// Waits for the next thing to happen, at most until the next tick, and sees to it.
void Launcher::watch_once() {
  std::vector<pollfd> looked_at{{signals_.fd(), POLLIN, 0}};
  for (const Child& child : children_) looked_at.push_back({child.report.get(), POLLIN, 0});
  const Duration wait = std::clamp<Duration>(std::min(tick_at_, kill_at_) - clock_.now(), 0ms, kTick);
  ::poll(looked_at.data(), looked_at.size(), static_cast<int>((wait + 999us) / 1ms));
  for (Child& child : children_) drain_report(child);
  if (signals_.take_interrupt()) interrupt();
  reap(WNOHANG);
  if (clock_.now() >= kill_at_) {
    kill_at_ = TimePoint::never();
    killing_ = true;
    send_all(SIGKILL);
  }
  if (clock_.now() >= tick_at_) {
    tick_at_ = clock_.now() + kTick;
    if (options_.while_running) options_.while_running();
  }
}

/// Takes what is there, so that no child blocks at its report.
void Launcher::drain_report(Child& child) {
  std::array<char, 65536> buffer;
  while (child.report.get() >= 0) {
    const ssize_t n = ::read(child.report.get(), buffer.data(), buffer.size());
    if (n > 0) child.report_bytes.append(buffer.data(), static_cast<std::size_t>(n));
    if (n == 0) child.report.close();
    if (n < 0 && errno != EINTR) return;
  }
}

void Launcher::reap(int options) {
  for (int rank = 0; rank < options_.ranks; ++rank) {
    Child& child = children_[static_cast<std::size_t>(rank)];
    if (child.process == 0) continue;
    int status = 0;
    const pid_t reaped = waitpid(child.process, &status, options);
    if (reaped == 0 || (reaped < 0 && errno == EINTR)) continue;
    child.process = 0;
    --running_;
    ended(rank, reaped > 0 ? status : 1 << 8);
  }
}

void Launcher::ended(int rank, int wait_status) {
  Child& child = children_[static_cast<std::size_t>(rank)];
  child.status = WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
  if (result_.interrupted || killing_ || memory_.fate(rank).kind == RankFate::Kind::left) return;
  kill_within(options_.patience_after_loss);
  if (WIFSIGNALED(wait_status) && result_.first_lost < 0) result_.first_lost = rank;
  memory_.mark_lost(rank, wait_status);
}

/// Passes it on; the second time there is no more patience.
void Launcher::interrupt() {
  if (result_.interrupted) {
    kill_within(Duration::zero());
    return;
  }
  result_.interrupted = true;
  kill_within(options_.patience_after_interrupt);
  memory_.set_interrupted();
  send_all(SIGTERM);
}

}  // namespace

bool JobResult::ok() const {
  return !interrupted && std::all_of(exit_status.begin(), exit_status.end(), [](int status) { return status == 0; });
}

std::uint64_t job_memory_bytes(const JobOptions& options) {
  return JobMemory::bytes_needed(options.ranks, options.extra_bytes);
}

Result<JobResult> run_job(const JobOptions& options, const RankMain& main) {
  auto memory = JobMemory::create(options.ranks, options.extra_bytes);
  if (!memory) return memory.error();
  return Launcher(options, main, *memory).run();
}

}  // namespace stretto
