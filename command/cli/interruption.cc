#include "command/cli/interruption.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstring>
#include <string_view>

#include "command/cli/exit_code.h"

namespace stretto::command {

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
