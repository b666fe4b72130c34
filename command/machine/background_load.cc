#include "command/machine/background_load.h"

#include <array>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <thread>

namespace stretto::command {

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
