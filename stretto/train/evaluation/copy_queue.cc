#include "stretto/train/evaluation/copy_queue.h"

#include <utility>

namespace stretto {
namespace {

constexpr Duration kLookEvery = std::chrono::seconds(1);  // at what another thread has to say anyway

}  // namespace

bool CopyQueue::put(ModelCopy& copy, Duration limit) {
  const SteadyClock clock;
  const TimePoint deadline = clock.now() + limit;
  const MutexLock lock(mutex_);
  while (waiting_ && !closed_) {
    const Duration left = deadline - clock.now();
    if (left <= Duration(0)) return false;
    changed_.wait_for(mutex_, left);
  }
  if (!closed_) waiting_ = std::move(copy);
  copy = {};
  changed_.notify_all();
  return true;
}

std::optional<ModelCopy> CopyQueue::take() {
  const MutexLock lock(mutex_);
  while (!waiting_ && !closed_) changed_.wait_for(mutex_, kLookEvery);
  changed_.notify_all();
  return std::exchange(waiting_, std::nullopt);
}

void CopyQueue::close() {
  const MutexLock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

void CopyQueue::abandon() {
  const MutexLock lock(mutex_);
  closed_ = true;
  waiting_.reset();
  changed_.notify_all();
}

}  // namespace stretto
