#pragma once

#include <condition_variable>
#include <mutex>

#include "stretto/base/clock.h"

#if defined(__clang__)
#define STRETTO_ANNOTATION(x) __attribute__((x))
#else
#define STRETTO_ANNOTATION(x)
#endif

#define CAPABILITY(x) STRETTO_ANNOTATION(capability(x))
#define SCOPED_CAPABILITY STRETTO_ANNOTATION(scoped_lockable)
#define GUARDED_BY(x) STRETTO_ANNOTATION(guarded_by(x))
#define PT_GUARDED_BY(x) STRETTO_ANNOTATION(pt_guarded_by(x))
#define REQUIRES(...) STRETTO_ANNOTATION(requires_capability(__VA_ARGS__))
#define ACQUIRE(...) STRETTO_ANNOTATION(acquire_capability(__VA_ARGS__))
#define RELEASE(...) STRETTO_ANNOTATION(release_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...) STRETTO_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define EXCLUDES(...) STRETTO_ANNOTATION(locks_excluded(__VA_ARGS__))
#define NO_THREAD_SAFETY_ANALYSIS STRETTO_ANNOTATION(no_thread_safety_analysis)

namespace stretto {

/// std::mutex, with the annotations that clang's thread-safety analysis needs.
class CAPABILITY("mutex") Mutex {
 public:
  void lock() ACQUIRE() { mutex_.lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }
  bool try_lock() TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

class CondVar {
 public:
  /// Waits until notified or `timeout` has passed; returns false when it has. May wake without reason.
  bool wait_for(Mutex& mutex, Duration timeout) REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const bool notified = condition_.wait_for(lock, timeout) == std::cv_status::no_timeout;
    lock.release();
    return notified;
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace stretto
