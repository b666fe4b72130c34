#include "stretto/ordering/runtime/tensor_timeline.h"

#include <iterator>
#include <utility>

namespace stretto {

void TensorTimeline::add(TensorTimes times) {
  MutexLock lock(mutex_);
  if (times_.size() == kKept) times_.pop_front();
  times_.push_back(std::move(times));
}

std::vector<TensorTimes> TensorTimeline::take() {
  MutexLock lock(mutex_);
  std::vector<TensorTimes> out(std::make_move_iterator(times_.begin()), std::make_move_iterator(times_.end()));
  times_.clear();
  return out;
}

}  // namespace stretto
