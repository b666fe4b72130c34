#include "stretto/membership/world.h"

#include <unistd.h>

#include "stretto/base/error.h"
#include "stretto/base/machine/cores.h"
#include "stretto/membership/job.h"

namespace stretto {

World::World(Transport& transport, const Clock& clock, Driver* driver)
    : transport_(transport), clock_(clock), process_(getpid()), given_driver_(driver) {}

bool World::forked() const {
  return getpid() != process_;
}

void World::require_own_process() const {
  require_process(process_, transport_.rank());
}

void require_process(pid_t process, int rank) {
  if (getpid() == process) return;
  throw UsageError(text("this process was forked from rank ", rank,
                        " after that had joined its job, of which it is no part: expected a process that is spawned, "
                        "or forked before"));
}

Engine& World::engine() {
  require_own_process();
  if (!engine_) engine_.emplace(transport_, clock_);
  return *engine_;
}

Driver& World::driver(ProgressBy progress_by) {
  require_own_process();
  if (given_driver_ != nullptr) return *given_driver_;
  if (!driver_) {
    DriverOptions options{.progress_by = progress_by};
    if (static_cast<int>(host().members.size()) >= num_cores()) options.share_cores();
    driver_.emplace(engine(), options);
    progress_by_ = progress_by;
  }
  if (progress_by != progress_by_) {
    throw UsageError("one engine serves all that a rank does: progress by a thread or by the application, as at first");
  }
  return *driver_;
}

int RankContext::borrow_counter() {
  for (int index = kNumCounters / 2; index < kNumCounters; ++index) {
    if ((borrowed_ >> index & 1u) != 0) continue;
    borrowed_ |= 1u << index;
    return index;
  }
  throw UsageError(text("more than ", kNumCounters / 2, " shared counters borrowed at a time, a pool of batches each"));
}

}  // namespace stretto
