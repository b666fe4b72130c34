#include "stretto/base/process_limit.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "stretto/base/text.h"

namespace stretto {

std::string why_no_process(int error) {
  std::string why = std::strerror(error);
  rlimit limit{};
  if (error != EAGAIN || getrlimit(RLIMIT_NPROC, &limit) != 0) return why;
  if (limit.rlim_cur == RLIM_INFINITY) return why + "; the container (pids.max) or the machine allows no more";
  return text(why, "; this user may have ", limit.rlim_cur,
              " processes and threads (RLIMIT_NPROC, ulimit -u), unless the container (pids.max) allows fewer");
}

}  // namespace stretto
