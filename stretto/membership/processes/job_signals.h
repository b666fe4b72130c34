#pragma once

#include <sys/types.h>

#include <csignal>
#include <map>

#include "stretto/base/descriptor.h"

namespace stretto {

/// The signals that a process which has started a job wants to hear of: those that end the job, SIGINT, SIGTERM, SIGHUP
/// and SIGQUIT, and SIGCHLD. While this object lives they come out of a descriptor, to whichever thread the kernel
/// delivers them. A signal that this process ignores (a job in the background) stays ignored. One at a time; its thread
/// is the one that made it.
class JobSignals {
 public:
  JobSignals();
  ~JobSignals();
  JobSignals(const JobSignals&) = delete;
  JobSignals& operator=(const JobSignals&) = delete;

  int fd() const { return fd_.get(); }  ///< readable when one has come; −1: none can be heard

  /// The first signal that ends a job and has come since the last call; 0: none has.
  int take();

  /// In a child that stays this program: it leaves to its parent what to do about Ctrl-C, and ends by SIGTERM.
  void leave_to_parent();
  /// In a child that becomes another program: all signals are as they were before.
  void restore();

 private:
  void hear(int signal);

  std::map<int, struct sigaction> before_;
  sigset_t heard_;
  sigset_t mask_;
  Descriptor fd_;
};

/// The notice to leave its job that a rank's process gets by SIGTERM. While this object lives the first SIGTERM is such
/// a notice; a second one ends the process, and so does any of the process that has started it, or in a process that it
/// has forked. A program that has an action of its own for SIGTERM keeps that. One at a time sees notices.
class LeaveNotice {
 public:
  /// `starter`: the process that has started the job; 0: none.
  explicit LeaveNotice(pid_t starter);
  ~LeaveNotice();  ///< end()
  LeaveNotice(const LeaveNotice&) = delete;
  LeaveNotice& operator=(const LeaveNotice&) = delete;

  /// Whether one has come. Any thread.
  bool has_come() const;
  /// Nobody looks for a notice any more: SIGTERM ends this process again, unless the program has its own action by now.
  void end() const;

 private:
  bool hears_ = false;  // fixed after construction
};

/// The parent of a process; 0: it is not known.
pid_t parent_of(pid_t process);

}  // namespace stretto
