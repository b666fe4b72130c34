#include "stretto/ordering/runtime/ordering_counters.h"

#include <utility>

#include "stretto/base/machine/cores.h"

namespace stretto {
namespace {

/// Of a thread; of one that has ended what was known last.
Duration read_clock(clockid_t clock, Duration otherwise) {
  timespec time{};
  if (clock_gettime(clock, &time) != 0) return otherwise;
  return std::chrono::seconds(time.tv_sec) + Duration(time.tv_nsec);
}

}  // namespace

OrderingStatistics OrderingCounters::read() const {
  MutexLock lock(mutex_);
  OrderingStatistics numbers = numbers_;
  if (background_clock_) {
    numbers.background_cpu = read_clock(*background_clock_, background_start_) - background_start_;
  }
  return numbers;
}

bool OrderingCounters::driven(bool spins) {
  const std::thread::id me = std::this_thread::get_id();
  const bool is_background = me != application_.load(std::memory_order_relaxed);
  const bool is_new = is_background && me != background_;
  if (is_new) {
    background_ = me;
    clockid_t clock{};
    if (pthread_getcpuclockid(pthread_self(), &clock) == 0) {
      MutexLock lock(mutex_);
      background_clock_ = clock;
      background_start_ = read_clock(clock, Duration(0));
    }
  }
  const bool spun = std::exchange(spins_, spins);
  if (spins && !(spun && me == spinner_)) {
    spinner_ = me;
    spins_since_ = thread_time();
  } else if (spun && !spins && me == spinner_) {
    const Duration for_so_long = thread_time() - spins_since_;
    count([&](OrderingStatistics& all) { all.spun += for_so_long; });
  }
  return is_new;
}

}  // namespace stretto
