#include "stretto/membership/job_signals.h"

#include <pthread.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

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

}  // namespace stretto
