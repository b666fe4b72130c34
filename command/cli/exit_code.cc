#include "command/cli/exit_code.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <string_view>

#include "command/cli/output.h"
#include "stretto/base/words.h"
#include "stretto/membership/job.h"
#include "stretto/train/job/run.h"

namespace stretto::command {

std::span<const ExitMeaning> exit_meanings() {
  static constexpr ExitMeaning kMeanings[] = {
      {kSuccess, "Done."},
      {kFailedRun,
       "The run failed: a gradient that is not finite, a rank that stopped the job, a broken promise, a violation "
       "found."},
      {kBadInput,
       "Bad input: one line names the value, what was expected and what would work. Also too little memory, processes "
       "or descriptors, a folder or a result that cannot be written, a checkpoint that does not fit, a build without "
       "LibTorch."},
      {kLostRank, "A rank was lost; it is named."},
      {kInterrupted, "Interrupted by Ctrl-C, SIGTERM, SIGHUP or SIGQUIT."},
  };
  return kMeanings;
}

ExitCode exit_code_of(const Error& error) {
  switch (error.code) {
    case Errc::lost_peer: return kLostRank;
    case Errc::bad_input:
    case Errc::unavailable:
    case Errc::io: return kBadInput;
    case Errc::timeout:
    case Errc::diverged:
    case Errc::members_changed:
    case Errc::excluded:
    case Errc::aborted: return kFailedRun;
  }
  return kFailedRun;
}

namespace {

// Whether this process says what is wrong with the arguments: all ranks of a host have the same ones, and one of them
// speaks for all. By STRETTO_MEETING each is started by hand and speaks for itself. Where the variables of a launcher
// are wrong themselves, no rank is known, and each process says so.
bool speaks() {
  try {
    if (launched_as_member()) return true;
    const auto launched = launched_rank();
    if (!launched || launched->rank % launched->local_ranks == 0) return true;
    return given_meeting(launched->rank, launched->ranks) != nullptr;
  } catch (const UsageError&) {
    return true;
  }
}

// Runs `body`; what it throws becomes a line and an exit code.
int code_of(const std::function<int()>& body, const std::function<void(const char*)>& complain) {
  try {
    return body();
  } catch (const UsageError& error) {
    if (speaks()) complain(error.what());
    return kBadInput;
  } catch (const Failure& failure) {
    complain(failure.what());
    return exit_code_of(failure.error());
  } catch (const Interrupted& interrupted) {
    complain(interrupted.what());
    return kInterrupted;
  } catch (const std::bad_alloc&) {
    complain("too little memory: expected more of it, or less to compute at once");
    return kBadInput;
  } catch (const std::exception& error) {
    complain(json_fault(error).c_str());
    return kFailedRun;
  }
}

}  // namespace

int guarded(const std::string& name, const std::function<int()>& body) {
  const auto complain = [&name](const char* what) {
    print_to(stderr, one_line(fmt::format("{}: {}", name, what)) + "\n");
  };
  end_on_signals(name);
  const int code = code_of(body, complain);
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (written) return code;
  complain("standard output cannot be written: a part of the result is missing there");
  std::clearerr(stdout);  // said: a command that has handed over to this one says it no more
  return code == kSuccess ? kBadInput : code;
}

namespace {

// What the handler reads. The name is written before the handler is installed.
std::array<char, 128> name_of_command{};
pid_t process = 0;
bool terminal = false;
std::atomic<const std::atomic<std::uint64_t>*> how_far{nullptr};  // stored last, loaded first: then the unit is there
std::atomic<const char*> unit_of_it{nullptr};

/// A line of limited length, made without memory of the heap.
class Line {
 public:
  void add(std::string_view words) {
    const std::size_t length = std::min(words.size(), text_.size() - 1 - size_);
    std::memcpy(text_.data() + size_, words.data(), length);
    size_ += length;
  }
  void add(std::uint64_t number) {
    std::array<char, 24> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    add(std::string_view(digits.data(), static_cast<std::size_t>(end - digits.data())));
  }
  void write() {
    text_[size_++] = '\n';
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text_.data(), size_);
  }

 private:
  std::array<char, 512> text_{};
  std::size_t size_ = 0;
};

extern "C" void end_by_signal(int signal) {
  if (::getpid() != process) {  // a child: by the default, as soon as the handler returns
    std::signal(signal, SIG_DFL);
    ::raise(signal);
    return;
  }
  const auto* const done = how_far.load();
  Line line;
  if (done != nullptr && terminal) line.add("\r\x1b[K");  // the bar
  line.add(name_of_command.data());
  line.add(": interrupted");
  if (done != nullptr) {
    line.add(" after ");
    line.add(done->load());
    line.add(" ");
    line.add(unit_of_it.load());
  }
  line.write();
  ::_exit(kInterrupted);
}

}  // namespace

void end_on_signals(const std::string& name) {
  process = ::getpid();
  terminal = ::isatty(STDERR_FILENO) == 1;
  name.copy(name_of_command.data(), name_of_command.size() - 1);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = end_by_signal;
    sigaction(signal, &action, nullptr);
  }
}

ToldWhenInterrupted::ToldWhenInterrupted(const std::atomic<std::uint64_t>& done, const std::string& unit) {
  unit_of_it.store(unit.c_str());
  how_far.store(&done);
}

ToldWhenInterrupted::~ToldWhenInterrupted() {
  how_far.store(nullptr);
}

}  // namespace stretto::command
