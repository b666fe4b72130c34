#include "command/run/host_launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>

#include "command/cli/output.h"
#include "command/cli/values.h"
#include "command/machine/programs.h"
#include "stretto/base/error.h"
#include "stretto/base/machine/process_limits.h"

namespace stretto::command {

namespace {

constexpr std::size_t kMostOfShell = 8192;  // bytes that are kept of what it says before the hello

// Whatever the shell of the user there is, this one is a POSIX shell's. $0 is the caller's own path.
constexpr const char* kFindStretto =
    R"(test -x "$0" || { command -v stretto >/dev/null || { echo "no Stretto there, neither $0 nor on PATH" >&2; )"
    R"(exit 127; }; exec stretto "$@"; }; exec "$0" "$@")";

std::string quoted(const std::string& word) {
  std::string out = "'";
  for (const char letter : word) {
    if (letter == '\'') {
      out += "'\\''";
    } else {
      out += letter;
    }
  }
  return out + '\'';
}

/// The two ends of a pipe, of which this process's does not block.
std::array<Descriptor, 2> open_pipe(bool is_read_here) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw Failure({Errc::io, fmt::format("no pipe for a remote shell: {}", why_no_process(errno))});
  }
  ::fcntl(ends[is_read_here ? 0 : 1], F_SETFL, O_NONBLOCK);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

/// Takes what there is; closes the descriptor where nothing will come any more. Returns whether something has come.
bool read_all(Descriptor& from, std::string& bytes) {
  std::array<char, 65536> buffer;
  if (from.get() < 0) return false;
  const ssize_t n = ::read(from.get(), buffer.data(), buffer.size());
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (n <= 0) from.close();
  if (n > 0) bytes.append(buffer.data(), static_cast<std::size_t>(n));
  return n > 0;
}

}  // namespace

std::vector<std::string> words_of_shell(const std::string& rsh) {
  std::vector<std::string> words = split_list(rsh, ' ');
  std::erase(words, "");
  return words;
}

std::vector<std::string> HostLauncher::command(const std::string& rsh, Duration answer_within,
                                               const std::string& program) const {
  const std::string own = find_stretto();
  if (host_.is_here()) return {own, "run", "--from-launcher", "--", program};
  std::vector<std::string> words = words_of_shell(rsh);
  if (std::filesystem::path(words.front()).filename() == "ssh") {
    const auto limit = std::chrono::duration_cast<std::chrono::seconds>(answer_within).count();
    words.insert(words.end(), {"-T", "-x", "-o", "BatchMode=yes", "-o", "ControlMaster=no", "-o",
                               fmt::format("ConnectTimeout={}", std::max<std::int64_t>(limit, 1))});
  }
  words.push_back(host_.name);
  words.push_back(
      fmt::format("exec sh -c {} {} run --from-launcher -- {}", quoted(kFindStretto), quoted(own), quoted(program)));
  return words;
}

HostLauncher::Ends HostLauncher::open() {
  auto in = open_pipe(false), out = open_pipe(true), errors = open_pipe(true);
  to_ = std::move(in[1]);
  from_ = std::move(out[0]);
  errors_ = std::move(errors[0]);
  heard_at_ = clock_.now();
  return {std::move(in[0]), {std::move(out[1]), std::move(errors[1])}};
}

std::string HostLauncher::ranks_in_words() const {
  if (host_.ranks == 1) return fmt::format("rank {}", first_);
  return fmt::format("ranks {} to {}", first_, first_ + host_.ranks - 1);
}

void HostLauncher::look_at(std::vector<pollfd>& looked_at, bool has_room) const {
  if (from_.get() >= 0 && has_room) looked_at.push_back({from_.get(), POLLIN, 0});
  if (errors_.get() >= 0 && has_room) looked_at.push_back({errors_.get(), POLLIN, 0});
  if (to_.get() >= 0 && !to_send_.empty()) looked_at.push_back({to_.get(), POLLOUT, 0});
}

void HostLauncher::say(const CallerWords& words) {
  if (words.kind == CallerWords::Kind::beat && !to_send_.empty()) return;
  if (to_.get() >= 0) to_send_ += words.encoded() + '\n';
}

void HostLauncher::exchange(OutputOfRanks& output, bool has_room, const std::function<void(const HostWords&)>& take) {
  while (to_.get() >= 0 && !to_send_.empty()) {
    const ssize_t n = ::write(to_.get(), to_send_.data(), to_send_.size());
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (n < 0) {
      to_.close();  // its end is told by the process's
      break;
    }
    to_send_.erase(0, static_cast<std::size_t>(n));
  }
  if (!has_room) return;
  read_words(take);
  read_errors(output);
}

void HostLauncher::end(OutputOfRanks& output, const std::function<void(const HostWords&)>& take) {
  to_.close();
  // A process that it has left behind may hold the pipes: what is in them now is all.
  while (read_all(from_, received_)) {
  }
  read_words(take);
  while (read_errors(output)) {
  }
  std::string lines;
  lines_.end(lines);
  output.put(lines, /*to_errors=*/true);
}

void HostLauncher::read_words(const std::function<void(const HostWords&)>& take) {
  if (read_all(from_, received_)) heard_at_ = clock_.now();
  for (std::string line; take_line(received_, line);) {
    if (has_said_hello()) {
      take(HostWords::decoded(line).or_throw());
    } else if (line.starts_with(kHelloBegins)) {
      version_ = line.substr(kHelloBegins.size());
    }
  }
  if (!has_said_hello() && received_.size() > kMostOfShell) received_.clear();
}

bool HostLauncher::read_errors(OutputOfRanks& output) {
  const bool any = read_all(errors_, of_shell_);
  if (!has_said_hello()) {
    of_shell_.erase(0, of_shell_.size() - std::min(of_shell_.size(), kMostOfShell));
    return any;
  }
  std::string lines;
  lines_.add(std::exchange(of_shell_, {}), lines);
  output.put(lines, /*to_errors=*/true);
  return any;
}

std::string HostLauncher::last_of_shell() const {
  std::string last;
  for (const std::string& line : split_list(of_shell_, '\n')) {
    if (line.find_first_not_of(" \r\t") != std::string::npos) last = line;
  }
  return one_line(last.ends_with('\r') ? last.substr(0, last.size() - 1) : last);
}

}  // namespace stretto::command
