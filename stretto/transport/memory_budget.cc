#include "stretto/transport/memory_budget.h"

#include <sys/resource.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string_view>

#include "stretto/base/error.h"

namespace stretto {
namespace {

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The number a file consists of; none for "max" or where there is no such file.
std::optional<std::uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return std::nullopt;
  return parse_number(word);
}

/// The number that stands after `key` in a file of lines "key number …".
std::optional<std::uint64_t> number_after(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::string word;
  std::string number;
  std::string rest;
  while (file >> word >> number) {
    if (word == key) return parse_number(number);
    std::getline(file, rest);
  }
  return std::nullopt;
}

/// Where a version of control groups keeps the numbers of memory.
struct GroupFiles {
  std::string mount;
  const char* limit;
  const char* usage;
  const char* cache_key;
};

void tighten(MemoryBudget& budget, std::uint64_t bytes, const char* limit) {
  if (bytes < budget.bytes) budget = {bytes, limit};
}

/// A group is bound by the limits of all groups around it.
void tighten_by_groups(MemoryBudget& budget, const GroupFiles& files, std::string group) {
  while (true) {
    const std::string folder = files.mount + group + "/";
    const auto limit = number_in(folder + files.limit);
    const auto usage = number_in(folder + files.usage);
    if (limit && usage) {
      const std::uint64_t cache = number_after(folder + "memory.stat", files.cache_key).value_or(0);
      const std::uint64_t used = *usage > cache ? *usage - cache : 0;
      tighten(budget, *limit > used ? *limit - used : 0, "memory limit of the container");
    }
    const auto slash = group.find_last_of('/');
    if (slash == std::string::npos) return;
    group.resize(slash);
  }
}

}  // namespace

MemoryBudget memory_budget(const std::string& root) {
  if (const char* override_bytes = std::getenv("STRETTO_SHM_LIMIT")) {
    const auto bytes = parse_number(override_bytes);
    if (!bytes) {
      throw UsageError(text("STRETTO_SHM_LIMIT=", override_bytes, ": expected a number of bytes, e.g. 268435456"));
    }
    return {*bytes, "STRETTO_SHM_LIMIT"};
  }
  MemoryBudget budget{~std::uint64_t{0}, "nothing"};
  if (const auto kib = number_after(root + "/proc/meminfo", "MemAvailable:")) {
    tighten(budget, *kib * 1024, "free memory of the machine");
  }
  rlimit file_size{};
  if (getrlimit(RLIMIT_FSIZE, &file_size) == 0 && file_size.rlim_cur != RLIM_INFINITY) {
    tighten(budget, file_size.rlim_cur, "file size limit (ulimit -f)");
  }
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = text(",", line.substr(first + 1, second - first - 1), ",");
    std::string group = line.substr(second + 1);
    if (group == "/") group.clear();
    if (controllers == ",,") {
      for (const char* mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
        tighten_by_groups(budget, {root + mount, "memory.max", "memory.current", "inactive_file"}, group);
      }
    } else if (controllers.find(",memory,") != std::string::npos) {
      tighten_by_groups(
          budget,
          {root + "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
          group);
    }
  }
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
