#include "command/cores.h"

#include <fmt/format.h>
#include <sched.h>

#include <cerrno>
#include <cstring>

#include "stretto/base/error.h"

namespace stretto::command {

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

void pin_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  if (::sched_setaffinity(0, sizeof(set), &set) == 0) return;
  throw Failure({Errc::io, fmt::format("cannot stay on core {}: {}", core, std::strerror(errno))});
}

}  // namespace stretto::command
