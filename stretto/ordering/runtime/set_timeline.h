#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/mutex.h"
#include "stretto/observe/tensor_times.h"
#include "stretto/ordering/orderer/orderer.h"

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

/// Follows the tensors of a process set on one rank, and adds the times of each to a TensorTimeline when its buffer is
/// done. Does nothing until that keeps them. All calls are those of the thread that drives the engine.
class SetTimeline {
 public:
  /// Both outlive it.
  SetTimeline(const Clock& clock, TensorTimeline& all, int set) : clock_(clock), all_(all), set_(set) {}

  /// The thread has taken the tensor, which was submitted then, from the application's queue.
  void taken(TensorId tensor, TimePoint submitted) {
    if (all_.keeps()) take(tensor, submitted);
  }
  /// The buffer begins. `orderer` knows the names of its tensors.
  void begun(const FusedBuffer& buffer, const Orderer& orderer) {
    if (all_.keeps()) begin(buffer, orderer);
  }
  /// All that this rank brings to the buffer lies where the others find it.
  void fused(SequenceNumber buffer);
  /// Its sums lie where the application finds them; else it was thrown away, and its tensors come again.
  void done(SequenceNumber buffer, bool is_valid);

 private:
  /// A tensor between its submission and the begin of its buffer.
  struct Waiting {
    bool waits = false;
    bool comes_again = false;
    TimePoint submitted, taken;
  };
  using UnderWay = std::vector<std::pair<TensorId, TensorTimes>>;

  Waiting& waiting(TensorId tensor);
  void take(TensorId tensor, TimePoint submitted);
  void begin(const FusedBuffer& buffer, const Orderer& orderer);

  const Clock& clock_;
  TensorTimeline& all_;
  const int set_;
  std::vector<Waiting> waiting_;                  // by TensorId
  std::map<SequenceNumber, UnderWay> under_way_;  // of buffers with tensors that this rank has submitted
};

}  // namespace stretto
