#include "stretto/base/process_limit.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "stretto/base/text.h"

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

}  // namespace stretto
