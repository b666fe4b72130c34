#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>

#include "stretto/base/clock.h"
#include "stretto/base/descriptor.h"
#include "stretto/base/machine/process_limits.h"
#include "stretto/membership/changing_rank.h"
#include "stretto/membership/job.h"
#include "stretto/membership/masters/job_master.h"
#include "stretto/membership/processes/job_processes.h"
#include "stretto/membership/rank_end.h"
#include "stretto/membership/shm_rank_context.h"
#include "stretto/transport/job_memory.h"

// Looks for leaks of this process; there only where the address sanitizer is linked in.
extern "C" void __lsan_do_leak_check() __attribute__((weak));  // NOLINT: the sanitizer names it

namespace stretto {
namespace {

using namespace std::chrono_literals;

constexpr Duration kTick = 100ms;
constexpr int kMastersPort = 0;  // the counter that says it, where there is a master: ranks have no counters then

/// Calls `visit` with the state letter of each other thread (proc(5)): R runs or would, S sleeps.
template <class Visit>
void for_each_other_thread(Visit&& visit) {
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", gone)) {
    if (task.path().filename() == std::to_string(syscall(SYS_gettid))) continue;
    std::ifstream file(task.path() / "stat");
    const std::string line{std::istreambuf_iterator<char>(file), {}};
    const auto name_end = line.rfind(')');  // the name may hold anything
    if (name_end != std::string::npos && name_end + 2 < line.size()) visit(line[name_end + 2]);
  }
}

/// Threads of this process beside the calling one.
int num_other_threads() {
  int count = 0;
  for_each_other_thread([&](char) { ++count; });
  return count;
}

/// Waits until all other threads of this process sleep, a second at most. Returns whether they do. A thread that
/// computes may hold a lock, which a process forked meanwhile would find locked for ever; one that waits for work, as
/// those of OpenMP do, holds none.
bool other_threads_sleep() {
  const SteadyClock clock;
  for (const TimePoint end = clock.now() + 1s;; std::this_thread::sleep_for(1ms)) {
    bool running = false;
    for_each_other_thread([&](char state) { running |= state == 'R'; });
    if (!running) return true;
    if (clock.now() > end) return false;
  }
}

/// Starts the ranks of one job, watches them, and leaves none behind.
class Launcher {
 public:
  Launcher(const JobOptions& options, const RankMain& main, JobMemory& memory)
      : options_(options),
        main_(main),
        memory_(memory),
        children_(static_cast<std::size_t>(options.ranks)),
        processes_({.ranks = options.ranks,
                    .grace_after_interrupt = options.grace_after_interrupt,
                    .ended = [this](int rank, int wait_status) { ended(rank, wait_status); },
                    .interrupted = [this] { return interrupted(); }}) {}
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  Result<JobResult> run();

 private:
  struct Child {
    RankPipe pipe;
    std::string report;
    int status = 0;
    bool is_needed = true;
  };

  Result<void> start(int rank);
  [[noreturn]] void be(int rank, int pipe);
  [[noreturn]] void live(int rank, int pipe);
  void watch_once();
  /// Ends a rank for which nobody waits any more.
  void part_with(MemberNumber number, JobOfMembers::Fate fate);
  void listen(int rank);
  void tell(const std::string& line);
  void ended(int rank, int wait_status);
  bool interrupted();
  void say(const std::string& line) const {
    if (options_.tell) return options_.tell(line);
    std::cerr << text("stretto: ", line, "\n");
  }

  const JobOptions& options_;
  const RankMain& main_;
  JobMemory& memory_;
  const bool among_threads_ = num_other_threads() > 0;
  const SteadyClock clock_;
  std::vector<Child> children_;
  TimePoint tick_at_;
  std::string consequence_;          // the first that a rank has told of
  const Token token_ = new_token();  // of a master
  std::optional<JobMaster> master_;  // where members may be lost
  JobResult result_;
  JobProcesses processes_;  // tells of ends until it is gone: the first to go
};

Result<JobResult> Launcher::run() {
  memory_.set_watched();
  std::fflush(nullptr);  // or each child would write it again
  std::cout.flush();
  for (int rank = 0; rank < options_.ranks; ++rank) {
    if (auto started = start(rank); !started) {
      result_.cause = started.error().message;  // the caller says it; what the ranks before it say follows from it
      return started.error();
    }
  }
  if (options_.least > 0) {
    // Nobody starts a rank again: where too few are left the job is over.
    master_.emplace(JobMaster::Options{.token = token_,
                                       .least = options_.least,
                                       .most = options_.ranks,
                                       .given = options_.ranks,
                                       .position = options_.position});
    memory_.counter(kMastersPort).store(master_->port());
  }
  while (processes_.running() > 0) watch_once();
  if (master_) result_.reached_end = master_->known().end == JobEnd::done;
  for (Child& child : children_) {
    result_.exit_status.push_back(child.status);
    result_.reports.push_back(std::move(child.report));
  }
  if (!consequence_.empty()) tell(consequence_);  // where no rank has said what it is a consequence of
  return std::move(result_);
}

Result<void> Launcher::start(int rank) {
  Child& child = children_[static_cast<std::size_t>(rank)];
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return processes_.not_started(rank, "pipe");
  child.pipe = RankPipe(Descriptor(ends[0]));
  const Descriptor to_parent(ends[1]);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  if (auto started = processes_.start(rank, [&] { be(rank, ends[1]); }); !started) return started;
  memory_.enter(rank, processes_.process(rank));
  return {};
}

/// What the child process of a rank does until its end.
void Launcher::be(int rank, int pipe) {
  for (Child& child : children_) child.pipe.close();
  if (!among_threads_) live(rank, pipe);
  // The thread that has forked remembers a team of OpenMP threads that are not here, and would wait for them for ever.
  // A new thread gets a team of its own. It alone hears signals, as where there is no other thread.
  sigset_t all, mask;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &mask);
  try {
    std::thread([&] {
      pthread_sigmask(SIG_SETMASK, &mask, nullptr);
      live(rank, pipe);
    }).join();
  } catch (const std::system_error& error) {
    write_message(pipe, RankMessage::Kind::cause,
                  text("rank ", rank, " cannot start its thread: ", why_no_process(error.code().value())));
  }
  _exit(1);
}

/// The rank's function and what follows it.
void Launcher::live(int rank, int pipe) {
  const pid_t self = getpid();
  int status = 1;
  try {
    const auto say = [pipe](const RankMessage& message) { write_message(pipe, message.kind, message.text); };
    const auto run = [&](RankContext& context) {
      if (options_.prepare) options_.prepare(context);
      status = process_status(main_(context));
    };
    if (options_.least > 0) {
      auto& port = memory_.counter(kMastersPort);  // the master comes after all have been forked, without its thread
      while (port.load() == 0) std::this_thread::sleep_for(1ms);
      const auto context = make_changing_rank({.port = static_cast<std::uint16_t>(port.load()),
                                               .token = token_,
                                               .number = static_cast<MemberNumber>(rank),
                                               .place = rank,
                                               .most = options_.ranks,
                                               .starter = getppid(),
                                               .interrupted = [this] { return memory_.interrupted(); },
                                               .say = say});
      run(*context);
    } else {
      ShmRankContext context(memory_, rank, say);
      run(context);
    }
  } catch (const Left&) {
    status = 0;
  } catch (...) {
    const RankMessage message = message_of_exception(rank);
    write_message(pipe, message.kind, message.text);
  }
  if (getpid() != self) end_forked_child();
  std::cout.flush();
  std::fflush(nullptr);
  if (__lsan_do_leak_check != nullptr) __lsan_do_leak_check();
  if (status == 0) memory_.leave(rank);
  _exit(status);
}

/// Waits for the next event, at most until the next tick, and handles it.
void Launcher::watch_once() {
  std::vector<pollfd> looked_at;
  for (const Child& child : children_) looked_at.push_back({child.pipe.fd(), POLLIN, 0});
  processes_.wait(looked_at, std::min<Duration>(tick_at_ - clock_.now(), kTick));
  for (int rank = 0; rank < options_.ranks; ++rank) listen(rank);
  processes_.attend();
  if (master_) {
    master_->fulfil_wishes([this](MemberNumber number, JobOfMembers::Fate fate) { part_with(number, fate); },
                           [this](const std::string& line) { say(line); });
  }
  if (clock_.now() >= tick_at_) {
    tick_at_ = clock_.now() + kTick;
    if (options_.while_running) options_.while_running();
  }
}

void Launcher::part_with(MemberNumber number, JobOfMembers::Fate fate) {
  const int rank = static_cast<int>(number);
  if (!std::in_range<int>(number) || processes_.process(rank) == 0) return;
  if (fate == JobOfMembers::Fate::not_come) {
    children_[static_cast<std::size_t>(rank)].is_needed = false;
    say(text("rank ", rank, " has not come to the job, which has ended: it is ended, too"));
  }
  processes_.end_member(rank, options_.grace_after_loss);
}

/// Reads what the rank tells as it comes, so that the rank does not block while it writes.
void Launcher::listen(int rank) {
  Child& child = children_[static_cast<std::size_t>(rank)];
  child.pipe.drain();
  while (auto message = child.pipe.next()) {
    switch (message->kind) {
      case RankMessage::Kind::report: child.report = std::move(message->text); break;
      case RankMessage::Kind::cause: tell(message->text); break;
      case RankMessage::Kind::consequence:
      case RankMessage::Kind::loss:
        if (consequence_.empty()) consequence_ = std::move(message->text);
    }
  }
}

/// Passes on what went wrong first; what goes wrong after that follows from it.
void Launcher::tell(const std::string& line) {
  if (!result_.cause.empty() || result_.interrupted) return;
  result_.cause = line;
  say(line);
}

void Launcher::ended(int rank, int wait_status) {
  listen(rank);  // what it has said before it ended
  Child& child = children_[static_cast<std::size_t>(rank)];
  child.status = exit_status_of(wait_status);
  if (master_) master_->lose(static_cast<MemberNumber>(rank));
  if (master_ && !result_.interrupted && master_->known().view.has_departed(static_cast<MemberNumber>(rank))) {
    return say(text("rank ", rank, " has left"));  // however it has ended since
  }
  if (result_.interrupted || processes_.killing() || !child.is_needed ||
      memory_.fate(rank).kind == RankFate::Kind::left)
    return;
  if (WIFSIGNALED(wait_status) && result_.first_lost < 0) result_.first_lost = rank;
  if (master_) {
    memory_.mark_lost(rank, wait_status);
    const char* then = processes_.running() >= options_.least ? "; the others go on" : "; too few are left";
    return say(text("rank ", rank, " is lost: ", memory_.fate(rank).to_string(), then));
  }
  processes_.kill_within(options_.grace_after_loss);
  memory_.mark_lost(rank, wait_status);
  if (WIFSIGNALED(wait_status)) tell(text("rank ", rank, " is lost: ", memory_.fate(rank).to_string()));
}

/// The ranks see why they are about to get SIGTERM.
bool Launcher::interrupted() {
  result_.interrupted = true;
  memory_.set_interrupted();
  return true;
}

}  // namespace

bool JobResult::ok() const {
  return !interrupted &&
         (reached_end || std::all_of(exit_status.begin(), exit_status.end(), [](int status) { return status == 0; }));
}

std::uint64_t job_memory_bytes(const JobOptions& options) {
  return JobMemory::bytes_needed(options.ranks, options.extra_bytes);
}

Result<JobResult> run_job(const JobOptions& options, const RankMain& main) {
  if (const auto place = launched_rank()) {
    return Error{Errc::unavailable, text("run_job() would start ", options.ranks, " ranks in each of the ",
                                         place->ranks, " processes that ", place->starter,
                                         " has started: use launch(), or run_ranks() of stretto/stretto.h")};
  }
  if (num_other_threads() > 0 && !other_threads_sleep()) {
    throw UsageError(
        "run_job() forks this process while another thread of it computes, and would take its locks along: end or "
        "join that thread first, or start it inside the ranks (threads of OpenMP: OMP_WAIT_POLICY=passive)");
  }
  if (options.least < 0 || options.least > options.ranks || (options.least > 0 && options.extra_bytes > 0)) {
    throw UsageError(text("a job of ", options.ranks, " ranks that goes on with ", options.least,
                          ": expected at most as many, and no extra memory"));
  }
  auto memory = JobMemory::create(options.ranks, options.extra_bytes);
  if (!memory) return memory.error();
  return Launcher(options, main, *memory).run();
}

}  // namespace stretto
