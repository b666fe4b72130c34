#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <vector>

#include "stretto/base/mutex.h"
#include "stretto/observe/tensor_times.h"

namespace stretto {

/// The times of a rank's tensors, from the thread that drives the engine to the application; none until that asks.
/// Thread-safe.
class TensorTimeline {
 public:
  /// Times that wait to be taken, the newest.
  static constexpr std::size_t kKept = 1 << 16;

  /// From now on they are kept: of tensors that are submitted after this.
  void keep() { keeps_.store(true, std::memory_order_relaxed); }
  bool keeps() const { return keeps_.load(std::memory_order_relaxed); }

  void add(TensorTimes times);
  /// The times that have been added since the last call, in that order.
  std::vector<TensorTimes> take();

 private:
  std::atomic<bool> keeps_{false};  // guards no memory: who sees it late keeps a tensor less
  Mutex mutex_;
  std::deque<TensorTimes> times_ GUARDED_BY(mutex_);
};

}  // namespace stretto
