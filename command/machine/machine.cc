#include "command/machine/machine.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include "stretto/base/machine/cores.h"

namespace stretto::command {

namespace {

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t start = line.find(": ");
    if (start != std::string::npos) return line.substr(start + 2);
  }
  return "unknown processor";
}

}  // namespace

Machine this_machine() {
  Machine machine;
  machine.cpu = cpu_model();
  machine.cores = num_cores();
  double load[1] = {0};
  if (getloadavg(load, 1) == 1) machine.load = load[0];
  machine.memory_bytes =
      static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  utsname name{};
  if (uname(&name) == 0) machine.system = fmt::format("{} {}", name.sysname, name.release);
  return machine;
}

std::string Machine::to_text() const {
  return fmt::format("{}, {} core{}, {:.0f} GB, load {:.2f}, {}", cpu, cores, cores == 1 ? "" : "s",
                     static_cast<double>(memory_bytes) / 1e9, load, system);
}

nlohmann::ordered_json Machine::to_json() const {
  return {{"cpu", cpu}, {"cores", cores}, {"load", load}, {"memory_bytes", memory_bytes}, {"system", system}};
}

namespace {

struct Ticks {
  double idle = 0;
  double all = 0;
};

// The first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal.
std::optional<Ticks> read_ticks() {
  std::ifstream stat("/proc/stat");
  std::string cpu;
  std::array<double, 8> ticks{};
  stat >> cpu;
  for (double& value : ticks) stat >> value;
  if (!stat || cpu != "cpu") return std::nullopt;
  Ticks out;
  for (const double value : ticks) out.all += value;
  out.idle = ticks[3] + ticks[4];
  return out;
}

}  // namespace

double background_load(Duration window) {
  const auto before = read_ticks();
  std::this_thread::sleep_for(window);
  const auto after = read_ticks();
  if (!before || !after || after->all <= before->all) return std::numeric_limits<double>::quiet_NaN();
  return 1 - (after->idle - before->idle) / (after->all - before->all);
}

}  // namespace stretto::command
