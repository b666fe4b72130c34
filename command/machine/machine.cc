#include "command/machine/machine.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "stretto/base/cores.h"

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

}  // namespace stretto::command
