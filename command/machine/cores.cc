#include "command/machine/cores.h"

#include <fmt/format.h>
#include <sched.h>

#include <cerrno>
#include <cstring>

#include "stretto/base/error.h"

namespace stretto::command {

void pin_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  if (::sched_setaffinity(0, sizeof(set), &set) == 0) return;
  throw Failure({Errc::io, fmt::format("cannot stay on core {}: {}", core, std::strerror(errno))});
}

}  // namespace stretto::command
