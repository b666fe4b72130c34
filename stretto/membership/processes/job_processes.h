#pragma once

#include <poll.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/descriptor.h"
#include "stretto/base/error.h"
#include "stretto/membership/processes/job_signals.h"

namespace stretto {

/// The exit status of a process that waitpid() has told of, as shells have it: 128 + signal for a killed one.
int exit_status_of(int wait_status);

/// The processes of a job's ranks, one each, in the hands of the process that has started them: forks them, hears of
/// their ends, passes on signals that come to this process, ends those that take too long, and leaves none behind.
/// They die with this process. One thread; one object at a time, since signals are the process's.
class JobProcesses {
 public:
  struct Options {
    int ranks = 1;  ///< more may be started
    /// Each rank leads a session of its own, as fits one that becomes another program: Ctrl-C at a terminal comes to
    /// this process alone, and each signal is passed on as it is, to all processes of the rank's group. What of a group
    /// outlives its rank is left(). Requires: this process has no other children. Where it is false, ranks get SIGTERM
    /// for each signal, and ignore those that a terminal sends to all.
    bool own_sessions = false;
    Duration grace_after_interrupt = std::chrono::seconds(2);  ///< after the first signal, until ranks are killed
    /// The process has been reaped. Of several that are found ended at once those that were killed come first.
    std::function<void(int rank, int wait_status)> ended;
    /// The first signal has come, and is passed on next; returns false where it is not to be.
    std::function<bool()> interrupted;
  };

  explicit JobProcesses(Options options);
  ~JobProcesses();  ///< kills the ranks that run, and waits for their ends
  JobProcesses(const JobProcesses&) = delete;
  JobProcesses& operator=(const JobProcesses&) = delete;

  /// Starts a rank's process, which calls `live`, and ends where that returns. Errc::io.
  Result<void> start(int rank, const std::function<void()>& live);
  /// The Error for a rank that cannot be started: `call` failed, and errno says why.
  Error not_started(int rank, const char* call) const;

  /// Waits until one of `looked_at` is ready, a signal comes or a process ends, or ranks are to be killed; for at most
  /// `limit`.
  void wait(std::vector<pollfd> looked_at, Duration limit);
  /// Handles what has come meanwhile. Does not wait.
  void attend();

  int running() const { return running_; }          ///< ranks that have been started and not been reaped
  pid_t process(int rank) const;                    ///< 0 where it is none of these
  int interrupted() const { return interrupted_; }  ///< the first signal that came; 0: none has
  bool killing() const { return killing_; }         ///< a rank that dies from now on was killed from here
  /// Whether processes are there that a rank has started, in its group, and that it has not ended before its own end.
  bool left() const;
  void send_all(int signal);         ///< to all ranks that run, and to what is left
  void send(int rank, int signal);   ///< to one, and its group; without effect for one that is not there
  void kill_within(Duration grace);  ///< all of these that are there then; of several times the first counts
  /// A rank, and its group, without which the others go on, where members change: it has so long to end by itself.
  /// Without effect for one that is not there.
  void end_member(int rank, Duration grace);

 private:
  struct Process {
    pid_t id = 0;     // 0 before it is there and after it has been reaped
    pid_t group = 0;  // own_sessions: that may have processes
    TimePoint kill_at = TimePoint::never();
  };

  bool is_one(int rank) const { return rank >= 0 && static_cast<std::size_t>(rank) < processes_.size(); }
  void reap(int flags);
  void interrupt(int signal);
  void start_guard();
  void tell_guard(pid_t word) const;
  static void send(const Process& process, int signal);

  const Options options_;
  const SteadyClock clock_;
  JobSignals signals_;
  std::vector<Process> processes_;
  int running_ = 0;
  TimePoint kill_at_ = TimePoint::never();
  bool killing_ = false;
  int interrupted_ = 0;
  pid_t guard_ = 0;      // own_sessions: the process that kills all groups where this one is killed itself
  Descriptor to_guard_;  // where it hears of groups, and of this process's end
};

}  // namespace stretto
