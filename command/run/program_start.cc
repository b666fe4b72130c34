#include "command/run/program_start.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

namespace stretto::command {

namespace {

constexpr int kDidNotStart = 127;  // as shells have it

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

}  // namespace

ProgramStart::ProgramStart() : signal_before_(std::signal(SIGPIPE, SIG_IGN)) {}

ProgramStart::~ProgramStart() {
  std::signal(SIGPIPE, signal_before_);
}

bool ProgramStart::open() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
  answer_ = Descriptor(ends[0]);
  to_parent_ = Descriptor(ends[1]);
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return true;
}

/// The program finds signals as this process has found them.
void ProgramStart::become(const std::vector<std::string>& program, const std::vector<std::string>& environment,
                          int input, const OutputOfRanks::Ends& output) const {
  const std::vector<char*> arguments = pointers_to(program), variables = pointers_to(environment);
  if (input >= 0) ::dup2(input, STDIN_FILENO);
  if (output.out.get() >= 0) ::dup2(output.out.get(), STDOUT_FILENO);
  if (output.errors.get() >= 0) ::dup2(output.errors.get(), STDERR_FILENO);
  std::signal(SIGPIPE, signal_before_);
  std::signal(SIGXFSZ, SIG_DFL);
  ::execvpe(arguments[0], arguments.data(), variables.data());
  const int why = errno;
  [[maybe_unused]] const ssize_t written = ::write(to_parent_.get(), &why, sizeof(why));
  ::_exit(kDidNotStart);
}

int ProgramStart::hear() {
  if (!is_open()) return 0;
  int why = 0;
  const ssize_t bytes = ::read(answer_.get(), &why, sizeof(why));
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  answer_.close();
  return why;
}

}  // namespace stretto::command
