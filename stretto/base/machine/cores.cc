#include "stretto/base/machine/cores.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <optional>
#include <utility>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/machine/process_limits.h"

namespace stretto {

namespace {

/// The cores that a group's quota gives: microseconds a period, over the period.
std::optional<std::uint64_t> quota_of(const ControlGroup& group) {
  std::optional<std::uint64_t> quota, period;
  if (group.version == 2) {
    std::ifstream file(group.folder + "cpu.max");  // "200000 100000", or "max 100000"
    std::string first, second;
    if (!(file >> first >> second)) return std::nullopt;
    quota = whole_number(first);
    period = whole_number(second);
  } else {
    quota = number_in(group.folder + "cpu.cfs_quota_us");  // −1: none
    period = number_in(group.folder + "cpu.cfs_period_us");
  }
  if (!quota || !period || *period == 0) return std::nullopt;
  return *quota / *period + (*quota % *period != 0 ? 1 : 0);
}

std::optional<std::uint64_t> difference(const std::optional<std::uint64_t>& after,
                                        const std::optional<std::uint64_t>& before) {
  if (!after || !before) return std::nullopt;
  return *after - std::min(*after, *before);
}

}  // namespace

std::vector<int> usable_cores() {
  cpu_set_t set;
  std::vector<int> out;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) out.push_back(core);
    }
  }
  if (out.empty()) out.push_back(0);
  return out;
}

int count_cores(const std::string& root) {
  std::uint64_t cores = usable_cores().size();
  for (const ControlGroup& group : control_groups("cpu", root))
    cores = std::min(cores, quota_of(group).value_or(cores));
  return static_cast<int>(std::max<std::uint64_t>(cores, 1));
}

int num_cores() {
  // A fact about the machine, the same for all ranks of a process; reading it takes some files.
  static const int kCores = count_cores();
  return kCores;
}

void pin_thread(std::span<const int> cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::string names;
  for (const int core : cores) {
    CPU_SET(core, &set);
    names += text(names.empty() ? "" : ", ", core);
  }
  if (::sched_setaffinity(0, sizeof(set), &set) == 0) return;
  const int why = errno;
  throw Failure(
      {Errc::io, text("cannot stay on core", cores.size() == 1 ? " " : "s ", names, ": ", std::strerror(why))});
}

bool prefer_thread() {
  constexpr int kNice = -10;
  return ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kNice) == 0;
}

Duration thread_time() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + Duration(used.tv_nsec);
}

CoreSharing CoreSharing::since(const CoreSharing& before) const {
  return {.slice_ns = slice_ns,
          .throttled_periods = difference(throttled_periods, before.throttled_periods),
          .throttled_microseconds = difference(throttled_microseconds, before.throttled_microseconds)};
}

CoreSharing core_sharing(const std::string& root) {
  CoreSharing out;
  for (const char* file : {"/sys/kernel/debug/sched/base_slice_ns", "/sys/kernel/debug/sched/min_granularity_ns",
                           "/proc/sys/kernel/sched_min_granularity_ns"}) {
    if (!out.slice_ns) out.slice_ns = number_in(root + file);
  }
  for (const ControlGroup& group : control_groups("cpu", root)) {
    const std::string file = group.folder + "cpu.stat";
    out.throttled_periods = number_after(file, "nr_throttled");
    if (!out.throttled_periods) continue;
    out.throttled_microseconds = number_after(file, "throttled_usec");
    if (const auto nanoseconds = number_after(file, "throttled_time")) {  // version 1
      out.throttled_microseconds = *nanoseconds / 1000;
    }
    break;
  }
  return out;
}

Idleness::Reading Idleness::read_clocks() {
  return {SteadyClock().now().since_start, thread_time()};
}

bool Idleness::idles() {
  const Reading before = std::exchange(last_, read_());
  return 2 * (last_.ran - before.ran) < last_.wall - before.wall;
}

}  // namespace stretto
