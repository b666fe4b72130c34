#include "stretto/membership/processes/job_signals.h"

#include <pthread.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <string>

#include "stretto/base/words.h"

namespace stretto {
namespace {

/// The thread whose JobSignals hear what comes.
std::atomic<pid_t> hearing_thread{0};

/// The handler in all other threads, which do not block what the hearing thread does.
void pass_on(int signal) {
  const int before = errno;
  syscall(SYS_tgkill, getpid(), hearing_thread.load(), signal);
  errno = before;
}

/// The process that gets notices to leave, and the one whose SIGTERM is none. Written before the handler is installed.
std::atomic<pid_t> noticed_process{0}, starter_of_job{0};
std::atomic<bool> notice_came{false};

/// The handler of the first SIGTERM, which the default action follows.
void take_notice(int signal, siginfo_t* info, void*) {
  if (getpid() == noticed_process.load() && info->si_pid != starter_of_job.load()) {
    notice_came.store(true);
  } else {
    const int before = errno;
    raise(signal);  // once this has returned
    errno = before;
  }
}

}  // namespace

JobSignals::JobSignals() {
  hearing_thread.store(static_cast<pid_t>(syscall(SYS_gettid)));
  sigemptyset(&heard_);
  hear(SIGCHLD);  // ignored, children would vanish without a status
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) hear(signal);
  }
  pthread_sigmask(SIG_BLOCK, &heard_, &mask_);
  fd_ = Descriptor(signalfd(-1, &heard_, SFD_CLOEXEC | SFD_NONBLOCK));
}

JobSignals::~JobSignals() {
  for (const auto& [signal, action] : before_) sigaction(signal, &action, nullptr);
  pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
}

void JobSignals::hear(int signal) {
  struct sigaction action {};
  action.sa_handler = pass_on;
  action.sa_flags = SA_RESTART;
  sigaddset(&heard_, signal);
  sigaction(signal, &action, &before_[signal]);
}

int JobSignals::take() {
  int first = 0;
  signalfd_siginfo signal;
  while (::read(fd_.get(), &signal, sizeof(signal)) == static_cast<ssize_t>(sizeof(signal))) {
    if (first == 0 && signal.ssi_signo != SIGCHLD) first = static_cast<int>(signal.ssi_signo);
  }
  return first;
}

void JobSignals::leave_to_parent() {
  fd_.close();
  for (const auto& [signal, action] : before_) {
    if (signal == SIGCHLD) sigaction(signal, &action, nullptr);
  }
  for (const int signal : {SIGINT, SIGHUP, SIGQUIT}) std::signal(signal, SIG_IGN);
  std::signal(SIGTERM, SIG_DFL);
  pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
}

void JobSignals::restore() {
  fd_.close();
  for (const auto& [signal, action] : before_) sigaction(signal, &action, nullptr);
  pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
}

LeaveNotice::LeaveNotice(pid_t starter) {
  struct sigaction action {};
  sigaction(SIGTERM, nullptr, &action);
  if ((action.sa_flags & SA_SIGINFO) != 0 || action.sa_handler != SIG_DFL) return;
  noticed_process.store(getpid());
  starter_of_job.store(starter > 0 ? starter : -1);
  notice_came.store(false);
  action.sa_sigaction = take_notice;
  action.sa_flags = SA_SIGINFO | SA_RESTART | static_cast<int>(SA_RESETHAND);
  sigaction(SIGTERM, &action, nullptr);
  hears_ = true;
}

LeaveNotice::~LeaveNotice() {
  end();
}

void LeaveNotice::end() const {
  struct sigaction action {};
  sigaction(SIGTERM, nullptr, &action);
  if (hears_ && (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == take_notice)
    std::signal(SIGTERM, SIG_DFL);
}

bool LeaveNotice::has_come() const {
  return hears_ && notice_came.load();
}

pid_t parent_of(pid_t process) {
  std::ifstream file(text("/proc/", process, "/stat"));
  std::string line;
  std::getline(file, line);
  // The name of a process, in parentheses, may have any character.
  std::istringstream words(line.substr(std::min(line.size(), line.rfind(')') + 1)));
  char state = 0;
  pid_t parent = 0;
  words >> state >> parent;
  return parent;
}

}  // namespace stretto
