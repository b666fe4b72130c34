#include "command/run/calling_launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "command/machine/programs.h"
#include "stretto/base/error.h"

namespace stretto::command {

namespace {

constexpr Duration kForTheJob = std::chrono::minutes(2);  // for a caller that does not begin
constexpr int kRefused = 1;

}  // namespace

CallingLauncher::CallingLauncher()
    : in_(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)),
      out_(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)),
      heard_at_(clock_.now()),
      beat_at_(clock_.now()),
      liveness_(kForTheJob) {
  const Descriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ::dup2(nothing.get(), STDIN_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  const std::string hello = '\n' + hello_line() + '\n';  // behind what a login shell has not ended
  if (in_.get() < 0 || ::write(out_.get(), hello.data(), hello.size()) != static_cast<ssize_t>(hello.size())) {
    throw Failure({Errc::io, "--from-launcher is for stretto run --hosts, which speaks by standard input and output"});
  }
}

bool CallingLauncher::read() {
  std::array<char, 65536> buffer;
  pollfd ready = looked_at();
  if (has_ended_ || ::poll(&ready, 1, 0) != 1) return false;
  const ssize_t bytes = ::read(in_.get(), buffer.data(), buffer.size());
  if (bytes < 0 && (errno == EINTR || errno == EAGAIN)) return false;
  has_ended_ = bytes <= 0;
  if (has_ended_) return false;
  received_.append(buffer.data(), static_cast<std::size_t>(bytes));
  heard_at_ = clock_.now();
  return true;
}

void CallingLauncher::hear(FunctionRef<void(const CallerWords& words)> take) {
  while (read()) {
  }
  for (std::string line; take_line(received_, line);) take(CallerWords::decoded(line).or_throw());
}

bool CallingLauncher::is_gone() const {
  return has_ended_ || clock_.now() - heard_at_ > liveness_;
}

bool CallingLauncher::is_beat_due() {
  if (clock_.now() < beat_at_) return false;
  beat_at_ = clock_.now() + liveness_ / kBeatsInLiveness;
  return true;
}

CallerWords CallingLauncher::wait_for(CallerWords::Kind kind) {
  for (std::string line; !is_gone();) {
    while (take_line(received_, line)) {
      CallerWords words = CallerWords::decoded(line).or_throw();
      if (words.kind == kind) return words;
    }
    pollfd ready = looked_at();
    ::poll(&ready, 1, 1000);
    read();
  }
  throw Failure({Errc::lost_peer, "the launcher that has started this one is gone"});
}

void CallingLauncher::say(const HostWords& words) const {
  const std::string line = words.encoded() + '\n';
  for (std::size_t written = 0; written < line.size();) {
    const ssize_t bytes = ::write(out_.get(), line.data() + written, line.size() - written);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) throw Failure({Errc::lost_peer, "the launcher that has started this one is gone"});
    written += static_cast<std::size_t>(bytes);
  }
}

void CallingLauncher::take_environment(const CallerWords& words) {
  for (const std::string& entry : words.environment) {
    const std::size_t equals = entry.find('=');
    if (equals != std::string::npos) ::setenv(entry.substr(0, equals).c_str(), entry.c_str() + equals + 1, 1);
  }
  if (::chdir(words.folder.c_str()) != 0) {
    throw Failure(
        {Errc::io, fmt::format("the folder {}, where the job was started: {}", words.folder, std::strerror(errno))});
  }
}

std::optional<ProgramRanks> CallingLauncher::take_job() {
  const CallerWords words = wait_for(CallerWords::Kind::job);
  ProgramRanks job = words.job;
  HostWords ready{.kind = HostWords::Kind::ready};
  try {
    take_environment(words);
    if (!job.job && job.on_host.hosts > 1 && job.on_host.host == 0) ready.place = open_place();
  } catch (const std::exception& error) {
    say({.kind = HostWords::Kind::refused, .words = error.what()});
    return std::nullopt;
  }
  if (job.is_own && !job.program.empty()) job.program[0] = find_stretto();
  say(ready);
  job.on_host.place = wait_for(CallerWords::Kind::begin).place;
  job.caller = this;
  liveness_ = job.liveness - job.liveness / kBeatsInLiveness;  // the last beat was as long before the silence
  heard_at_ = clock_.now();
  return job;
}

int run_for_caller() {
  CallingLauncher caller;
  const std::optional<ProgramRanks> job = caller.take_job();
  return job ? run_program_ranks(*job, "stretto run").status : kRefused;
}

}  // namespace stretto::command
