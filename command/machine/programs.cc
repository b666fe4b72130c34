#include "command/machine/programs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/observe/whole_file.h"

extern char** environ;

namespace stretto::command {

namespace {

constexpr int kNotFound = 127;  // as shells say it

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

// Reads from `fd` until its end or the deadline; false when the deadline came first.
bool read_until(int fd, TimePoint deadline, std::string& out) {
  const SteadyClock clock;
  std::array<char, 4096> chunk;
  while (true) {
    const Duration left = deadline - clock.now();
    if (left <= Duration(0)) return false;
    pollfd waiting{fd, POLLIN, 0};
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(left).count() + 1;
    if (::poll(&waiting, 1, static_cast<int>(std::min<std::int64_t>(ms, 1'000'000))) <= 0) continue;
    const ssize_t n = ::read(fd, chunk.data(), chunk.size());
    if (n == 0) return true;
    if (n > 0) out.append(chunk.data(), static_cast<std::size_t>(n));
  }
}

}  // namespace

Result<std::string> run_program(const std::vector<std::string>& arguments, const std::vector<std::string>& environment,
                                Duration limit) {
  std::vector<std::string> variables = environment;
  for (char** entry = environ; *entry != nullptr; ++entry) variables.emplace_back(*entry);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Error{Errc::io, fmt::format("no pipe: {}", std::strerror(errno))};
  const std::vector<char*> argv = pointers(arguments);
  const std::vector<char*> envp = pointers(variables);
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // however this process ends
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    ::dup2(null, STDIN_FILENO);
    ::dup2(ends[1], STDOUT_FILENO);
    ::dup2(null, STDERR_FILENO);
    ::execvpe(argv[0], argv.data(), envp.data());
    ::_exit(kNotFound);
  }
  ::close(ends[1]);
  if (child < 0) {
    ::close(ends[0]);
    return Error{Errc::io, fmt::format("{} cannot be run: {}", arguments[0], std::strerror(errno))};
  }
  std::string out;
  const bool ended = read_until(ends[0], SteadyClock().now() + limit, out);
  ::close(ends[0]);
  if (!ended) ::kill(child, SIGTERM);  // mpirun takes its ranks along
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!ended) return Error{Errc::timeout, fmt::format("{} took longer than {}", arguments[0], to_text(limit))};
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotFound) {
    return Error{Errc::unavailable, fmt::format("{} cannot be run", arguments[0])};
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return Error{Errc::aborted, fmt::format("{} failed with status {}", arguments[0],
                                            WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status))};
  }
  return out;
}

std::vector<std::string> own_program() {
  std::error_code error;
  std::vector<std::string> words{std::filesystem::read_symlink("/proc/self/exe", error).string()};
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string word;
  std::getline(file, word, '\0');  // the name by which it was started
  while (std::getline(file, word, '\0')) words.push_back(word);
  return words;
}

std::string program_folder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

namespace {

std::string find_companion_in(const std::filesystem::path& folder, const std::string& name) {
  for (const auto& candidate : {folder / name, folder / ".." / "libexec" / "stretto" / name}) {
    std::error_code error;
    if (std::filesystem::is_regular_file(candidate, error)) return candidate.lexically_normal().string();
  }
  return {};
}

}  // namespace

bool is_stretto() {
  const std::string name = std::filesystem::path(own_program().front()).filename().string();
  return name == "stretto" || name == "stretto-train";
}

std::string find_stretto() {
  const std::filesystem::path folder = program_folder();
  for (const auto& candidate :
       {folder / "stretto", folder / ".." / ".." / "bin" / "stretto"}) {  // from libexec/stretto
    std::error_code error;
    if (std::filesystem::is_regular_file(candidate, error)) return candidate.lexically_normal().string();
  }
  return find_on_path("stretto");
}

std::string find_companion(const std::string& name) {
  return find_companion_in(program_folder(), name);
}

std::string find_script(const std::string& name) {
  std::string beside = find_companion(name);
  if (!beside.empty()) return beside;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::canonical(find_on_path("stretto"), error);
  return error ? std::string() : find_companion_in(program.parent_path(), name);
}

std::string find_on_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::filesystem::path candidate = std::filesystem::path(folder) / name;
    if (!folder.empty() && ::access(candidate.c_str(), X_OK) == 0) return candidate.string();
  }
  return {};
}

std::string find_python() {
  const auto python_of = [](const std::filesystem::path& environment) {
    const std::filesystem::path python = environment / "bin" / "python3";
    std::error_code error;
    return std::filesystem::exists(python, error) ? python.string() : std::string();
  };
  if (const char* active = std::getenv("VIRTUAL_ENV"); active != nullptr) {
    if (std::string python = python_of(active); !python.empty()) return python;
  }
  std::error_code error;
  for (std::filesystem::path start : {std::filesystem::current_path(error), std::filesystem::path(program_folder())}) {
    for (; !start.empty(); start = start.parent_path()) {
      if (std::string python = python_of(start / ".venv"); !python.empty()) return python;
      if (start == start.parent_path()) break;
    }
  }
  return find_on_path("python3");
}

namespace {

constexpr Duration kDrawing = std::chrono::minutes(5);  // on a machine that is busy

bool has_matplotlib(const std::string& python) {
  return run_program({python, "-c", "import matplotlib"}, {}, kDrawing).ok();
}

}  // namespace

std::string draw(const std::string& script, const std::vector<std::string>& arguments) {
  const std::string path = find_script(script);
  const std::string python = find_python();
  if (path.empty()) return fmt::format("{} is neither beside this program nor beside a stretto on PATH", script);
  if (python.empty()) return "no python3";
  std::vector<std::string> command{python, path};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const auto drawn = run_program(command, {"MPLBACKEND=svg"}, kDrawing);
  if (drawn) return {};
  return has_matplotlib(python) ? fmt::format("{}: {}", script, drawn.error().message)
                                : fmt::format("matplotlib is not in .venv, nor in {}", python);
}

Drawn write_and_draw(const std::string& csv, const std::string& content, const std::string& script,
                     const std::string& pictures) {
  if (const auto written = write_whole_file(csv, content); !written) {
    return {fmt::format("no {}: {}", std::filesystem::path(csv).filename().string(), written.error().message)};
  }
  const std::string why = draw(script, {csv});
  if (!why.empty()) return {fmt::format("{} (no SVG: {})", csv, why)};
  return {fmt::format("{}, {}", csv, pictures), true};
}

void require_matplotlib(std::string_view asked) {
  const std::string python = find_python();
  if (!python.empty() && has_matplotlib(python)) return;
  throw UsageError(
      fmt::format("{}: matplotlib is missing {}; expected it in .venv or in the python3 on PATH "
                  "(pip install matplotlib)",
                  asked, python.empty() ? "(and there is no python3)" : fmt::format("in {}", python)));
}

}  // namespace stretto::command
