#include "command/machine/child_processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "stretto/base/error.h"
#include "stretto/base/words.h"

namespace stretto::command {

namespace {

constexpr int kNice = 10;  // a tenth of what a process has that wants the core, too
constexpr char kDone = 'd', kThrew = 't';

void write_all(int fd, const std::string& text) {
  for (std::size_t written = 0; written < text.size();) {
    const ssize_t n = ::write(fd, text.data() + written, text.size() - written);
    if (n < 0 && errno != EINTR) return;  // nobody reads any more
    if (n > 0) written += static_cast<std::size_t>(n);
  }
}

[[noreturn]] void live(const std::function<std::string()>& work, pid_t parent, int to_parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it died before this child had asked to die with it
  ::setpriority(PRIO_PROCESS, 0, kNice);
  std::string message;
  try {
    message = kDone + work();
  } catch (const std::exception& error) {
    message = kThrew + json_fault(error);
  }
  write_all(to_parent, message);
  ::_exit(0);
}

}  // namespace

BackgroundTask::BackgroundTask(const std::function<std::string()>& work) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw Failure({Errc::io, fmt::format("no pipe: {}", std::strerror(errno))});
  }
  std::fflush(nullptr);  // or the child would have it to write, too
  const pid_t parent = ::getpid();
  child_ = ::fork();
  if (child_ == 0) live(work, parent, ends[1]);
  ::close(ends[1]);
  from_child_ = ends[0];
  if (child_ < 0) {
    const int why = errno;
    ::close(from_child_);
    throw Failure({Errc::io, fmt::format("no process: {}", std::strerror(why))});
  }
}

BackgroundTask::~BackgroundTask() {
  if (child_ != 0) ::kill(child_, SIGKILL);
  reap();
  ::close(from_child_);
}

void BackgroundTask::reap() {
  while (child_ != 0 && ::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
  child_ = 0;
}

void BackgroundTask::listen(bool block) {
  std::array<char, 4096> chunk;
  while (!result_) {
    pollfd readable{from_child_, POLLIN, 0};
    const int ready = ::poll(&readable, 1, block ? -1 : 0);
    if (ready == 0) return;
    if (ready < 0) continue;  // a signal
    const ssize_t n = ::read(from_child_, chunk.data(), chunk.size());
    if (n > 0) heard_.append(chunk.data(), static_cast<std::size_t>(n));
    if (n != 0) continue;
    reap();
    if (heard_.empty()) {
      result_ = Error{Errc::aborted, "its process was killed"};
    } else if (heard_.front() == kDone) {
      result_ = heard_.substr(1);
    } else {
      result_ = Error{Errc::aborted, heard_.substr(1)};
    }
  }
}

std::optional<Result<std::string>> BackgroundTask::poll() {
  listen(false);
  return result_;
}

Result<std::string> BackgroundTask::wait() {
  listen(true);
  return *result_;
}

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
