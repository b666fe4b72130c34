#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "stretto/base/mutex.h"

namespace stretto {

/// In which order, and from how many threads, a rank hands its gradients over. The defaults are what LibTorch does: the
/// thread of the backward pass hands each over as soon as it is computed, in the same order on every rank and in every
/// step. With that alone no two ranks ever differ, and nothing needs an order.
struct ReadyOrderOptions {
  /// The seed by which each rank shuffles its gradients, in another way in each step and on each rank. They are held
  /// back for it until the pass ends, so nothing is reduced beside it.
  std::optional<std::uint64_t> shuffle;
  /// Threads that hand gradients over, as those of a framework do that schedules operations; 0: that of the backward
  /// pass. With several the order depends on the timing, too.
  int threads = 0;
};

/// Hands the gradients of a rank over in another order than that in which they are computed. Any order of those between
/// two sums inside the model is admissible: none of them waits for another. One thread calls it.
class ReadyOrder {
 public:
  /// Called with a parameter when its gradient is handed over; with ReadyOrderOptions::threads in any of these, in
  /// several at once. May throw.
  using Submit = std::function<void(int parameter)>;

  /// Throws UsageError for a number of threads below 0 or above 64.
  ReadyOrder(const ReadyOrderOptions& options, int rank, Submit submit);
  ~ReadyOrder();  ///< drops what has not been handed over, after flush() nothing
  ReadyOrder(const ReadyOrder&) = delete;
  ReadyOrder& operator=(const ReadyOrder&) = delete;

  /// The gradient of `parameter` has been computed (GradientsByTensor::on_gradient_ready()).
  void ready(int parameter) EXCLUDES(mutex_);
  /// Returns when all that is ready has been handed over. At the end of each backward pass, and before the thread waits
  /// for a sum inside the model, which other ranks may reach only after the gradients before it. Throws what `submit`
  /// has thrown first.
  void flush() EXCLUDES(mutex_);

 private:
  void hand_over(int parameter) EXCLUDES(mutex_);
  void work() EXCLUDES(mutex_);

  const ReadyOrderOptions options_;
  const int rank_;
  const Submit submit_;

  // Owned by the thread that calls.
  std::vector<int> held_;  // until they are shuffled
  std::uint64_t flushes_ = 0;

  Mutex mutex_;
  CondVar changed_;
  std::deque<int> queue_ GUARDED_BY(mutex_);
  std::size_t unfinished_ GUARDED_BY(mutex_) = 0;  // in the queue, or with a thread
  std::exception_ptr thrown_ GUARDED_BY(mutex_);
  bool closed_ GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace stretto
