#include "stretto/base/machine/process_limits.h"

#include <sys/resource.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>

#include "stretto/base/words.h"

namespace stretto {

std::string why_no_process(int error) {
  std::string why = std::strerror(error);
  if (error != EAGAIN) return why;
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {  // for the stack of a thread
    why += text("; this process may have ", limit.rlim_cur / 1024, " KiB of memory (RLIMIT_AS, ulimit -v)");
  }
  if (getrlimit(RLIMIT_NPROC, &limit) != 0) return why;
  if (limit.rlim_cur == RLIM_INFINITY) return why + "; the container (pids.max) or the machine allows no more";
  return text(why, "; this user may have ", limit.rlim_cur,
              " processes and threads (RLIMIT_NPROC, ulimit -u), unless the container (pids.max) allows fewer");
}

namespace {

void add_with_all_around(std::vector<ControlGroup>& groups, const std::string& mount, std::string path, int version) {
  while (true) {
    groups.push_back({mount + path + "/", version});
    const auto slash = path.find_last_of('/');
    if (slash == std::string::npos) return;
    path.resize(slash);
  }
}

}  // namespace

std::vector<ControlGroup> control_groups(const std::string& controller, const std::string& root) {
  std::vector<ControlGroup> groups;
  std::ifstream lines(root + "/proc/self/cgroup");
  // A line is "number:controllers:path"; version 2 names no controllers.
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (controllers.empty()) {
      for (const char* mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
        add_with_all_around(groups, root + mount, path, 2);
      }
    } else if (text(",", controllers, ",").find(text(",", controller, ",")) != std::string::npos) {
      add_with_all_around(groups, root + "/sys/fs/cgroup/" + controller, path, 1);
      if (controllers != controller) add_with_all_around(groups, root + "/sys/fs/cgroup/" + controllers, path, 1);
    }
  }
  return groups;
}

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return std::nullopt;
  return whole_number(word);
}

std::optional<std::uint64_t> number_after(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::string word;
  std::string number;
  std::string rest;
  while (file >> word >> number) {
    if (word == key) return whole_number(number);
    std::getline(file, rest);
  }
  return std::nullopt;
}

}  // namespace stretto
