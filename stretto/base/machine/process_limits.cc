#include "stretto/base/machine/process_limits.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "stretto/base/error.h"
#include "stretto/base/words.h"

namespace stretto {
namespace {

/// Where a version of control groups keeps the numbers of memory.
struct GroupFiles {
  const char* limit;
  const char* usage;
  const char* cache_key;
};
constexpr GroupFiles kFirstVersion{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr GroupFiles kSecondVersion{"memory.max", "memory.current", "inactive_file"};

void tighten(MemoryBudget& budget, std::uint64_t bytes, const char* limit) {
  if (bytes < budget.bytes) budget = {bytes, limit};
}

void tighten_by(MemoryBudget& budget, const ControlGroup& group) {
  const GroupFiles& files = group.version == 1 ? kFirstVersion : kSecondVersion;
  const auto limit = number_in(group.folder + files.limit);
  const auto usage = number_in(group.folder + files.usage);
  if (!limit || !usage) return;
  const std::uint64_t cache = number_after(group.folder + "memory.stat", files.cache_key).value_or(0);
  const std::uint64_t used = *usage > cache ? *usage - cache : 0;
  tighten(budget, *limit > used ? *limit - used : 0, "memory limit of the container");
}

/// Half of the addresses that are left: what a rank allocates for itself needs some, too.
void tighten_by_addresses(MemoryBudget& budget, const std::string& root) {
  rlimit addresses{};
  if (getrlimit(RLIMIT_AS, &addresses) != 0 || addresses.rlim_cur == RLIM_INFINITY) return;
  const std::uint64_t used = number_after(root + "/proc/self/status", "VmSize:").value_or(0) * 1024;
  tighten(budget, addresses.rlim_cur > used ? (addresses.rlim_cur - used) / 2 : 0, "address space limit (ulimit -v)");
}

}  // namespace

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

std::string raise_descriptors(int needed) {
  constexpr rlim_t kPlenty = 1 << 16;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  if (limit.rlim_cur < limit.rlim_max) {
    const rlimit raised{.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  if (limit.rlim_cur >= kPlenty) return {};
  const int most = static_cast<int>(limit.rlim_cur);
  int open = 0;
  for (int descriptor = 0; descriptor < most; ++descriptor) open += fcntl(descriptor, F_GETFD) != -1 ? 1 : 0;
  if (most - open >= needed) return {};
  return text("this process may have ", most, " descriptors, has ", open, " and needs ", needed,
              " more (RLIMIT_NOFILE, ulimit -n): expected at least ulimit -n ", open + needed);
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

MemoryBudget available_memory(const std::string& root) {
  MemoryBudget budget{~std::uint64_t{0}, "nothing"};
  if (const auto kib = number_after(root + "/proc/meminfo", "MemAvailable:")) {
    tighten(budget, *kib * 1024, "free memory of the machine");
  }
  for (const ControlGroup& group : control_groups("memory", root)) tighten_by(budget, group);
  return budget;
}

MemoryBudget memory_budget(const std::string& root) {
  if (const char* override_bytes = std::getenv("STRETTO_SHM_LIMIT")) {
    const auto bytes = whole_number(override_bytes);
    if (!bytes) {
      throw UsageError(text("STRETTO_SHM_LIMIT=", override_bytes, ": expected a number of bytes, e.g. 268435456"));
    }
    return {*bytes, "STRETTO_SHM_LIMIT"};
  }
  MemoryBudget budget = available_memory(root);
  rlimit file_size{};
  if (getrlimit(RLIMIT_FSIZE, &file_size) == 0 && file_size.rlim_cur != RLIM_INFINITY) {
    tighten(budget, file_size.rlim_cur, "file size limit (ulimit -f)");
  }
  tighten_by_addresses(budget, root);
  return budget;
}

std::string format_bytes(std::uint64_t bytes) {
  static constexpr std::array kUnits{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return text(bytes, " B");
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1024) value /= 1024, ++unit;
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), "%.1f %s", value, kUnits[unit]);
  return out.data();
}

}  // namespace stretto
