#include "command/machine/busy_processes.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "stretto/base/error.h"

namespace stretto::command {

namespace {

[[noreturn]] void keep_busy(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it died before it could take us along
  while (true) asm volatile("");
}

}  // namespace

BusyProcesses::BusyProcesses(int count) {
  const pid_t parent = ::getpid();
  for (int i = 0; i < count; ++i) {
    const pid_t process = ::fork();
    if (process == 0) keep_busy(parent);
    if (process < 0) {
      const int reason = errno;
      end();
      throw Failure({Errc::io, fmt::format("cannot start a busy process: {}", std::strerror(reason))});
    }
    processes_.push_back(process);
  }
}

BusyProcesses::~BusyProcesses() {
  end();
}

void BusyProcesses::end() {
  for (const pid_t process : processes_) ::kill(process, SIGKILL);
  for (const pid_t process : processes_) {
    while (::waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  processes_.clear();
}

}  // namespace stretto::command
