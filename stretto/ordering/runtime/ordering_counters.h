#pragma once

#include <pthread.h>

#include <ctime>
#include <optional>
#include <thread>

#include "stretto/base/clock.h"
#include "stretto/base/mutex.h"
#include "stretto/ordering/options/ordering_statistics.h"

namespace stretto {

/// Counts what ordering costs: on the thread that drives the engine, for any thread to read.
class OrderingCounters {
 public:
  /// Changes the numbers by `change`, a function of them.
  template <class Change>
  void count(Change change) {
    MutexLock lock(mutex_);
    change(numbers_);
  }
  /// The numbers so far.
  OrderingStatistics read() const;

  /// The application's thread is the one that calls now; another one that drives is the background thread.
  void enter_application() { application_.store(std::this_thread::get_id(), std::memory_order_relaxed); }
  /// Once a step of the engine. `spins`: an answer is under way, and the thread looks for it without sleeping. Returns
  /// whether a background thread has called for the first time.
  bool driven(bool spins);

 private:
  // The driving thread's.
  std::atomic<std::thread::id> application_{};  // written by the application, read by the thread that drives
  std::thread::id background_;
  std::thread::id spinner_;
  Duration spins_since_{0};  // CPU time of spinner_
  bool spins_ = false;

  mutable Mutex mutex_;
  OrderingStatistics numbers_ GUARDED_BY(mutex_);
  std::optional<clockid_t> background_clock_ GUARDED_BY(mutex_);
  Duration background_start_ GUARDED_BY(mutex_){0};
};

}  // namespace stretto
