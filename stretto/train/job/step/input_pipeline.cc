#include "stretto/train/job/step/input_pipeline.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <system_error>
#include <thread>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/base/machine/cores.h"
#include "stretto/base/machine/process_limits.h"
#include "stretto/base/mutex.h"

namespace stretto {
namespace {

/// Between two looks at the clock, or at whether the pipeline ends.
constexpr int kTurns = 2000;
/// Bounds a wait in which a notification was missed.
constexpr Duration kLook = std::chrono::milliseconds(100);

}  // namespace

class InputPipeline::Impl {
 public:
  Impl(int threads, Duration load, std::vector<int> cores, std::function<Duration()> time)
      : share_(load / std::max(threads, 1)),
        cores_(std::move(cores)),
        time_(time ? std::move(time) : thread_time),
        working_(threads) {
    try {
      for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { prepare_batches(); });
    } catch (const std::system_error& error) {
      end();
      throw Failure({Errc::unavailable, text("cannot start input thread ", threads_.size() + 1, " of ", threads, ": ",
                                             why_no_process(error.code().value()))});
    }
  }

  ~Impl() { end(); }

  void next() {
    MutexLock lock(mutex_);
    while (working_ > 0) changed_.wait_for(mutex_, kLook);
    ++asked_for_;
    working_ = static_cast<int>(threads_.size());
    changed_.notify_all();
  }

  Duration burnt() const { return Duration(burnt_.load(std::memory_order_relaxed)); }

 private:
  void prepare_batches() {
    if (!cores_.empty()) pin_thread(cores_);
    for (std::uint64_t batch = 0; wait_for(batch); ++batch) {
      burn();
      MutexLock lock(mutex_);
      if (--working_ == 0) changed_.notify_all();
    }
  }

  /// Until the batch is asked for, or the pipeline ends: false.
  bool wait_for(std::uint64_t batch) {
    MutexLock lock(mutex_);
    while (asked_for_ < batch && !ends_.load(std::memory_order_relaxed)) changed_.wait_for(mutex_, kLook);
    return !ends_.load(std::memory_order_relaxed);
  }

  void burn() {
    const Duration begin = time_();
    Duration spent{0};
    volatile std::uint64_t work = 1;
    while (spent < share_ && !ends_.load(std::memory_order_relaxed)) {
      for (int i = 0; i < kTurns; ++i) work = work * 6364136223846793005u + 1442695040888963407u;
      spent = time_() - begin;
    }
    burnt_.fetch_add(spent.count(), std::memory_order_relaxed);
  }

  void end() {
    {
      MutexLock lock(mutex_);
      ends_.store(true, std::memory_order_relaxed);
      changed_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
  }

  const Duration share_;  // of a batch, of each thread
  const std::vector<int> cores_;
  const std::function<Duration()> time_;
  std::vector<std::thread> threads_;  // the caller's
  std::atomic<bool> ends_{false};     // stored under the mutex; read without it by a thread that burns
  std::atomic<std::int64_t> burnt_{0};

  Mutex mutex_;
  CondVar changed_;
  std::uint64_t asked_for_ GUARDED_BY(mutex_) = 0;  // the batch that is being prepared
  int working_ GUARDED_BY(mutex_);                  // threads that are not through with it
};

InputPipeline::InputPipeline(int threads, Duration load, std::vector<int> cores, std::function<Duration()> time)
    : impl_(std::make_unique<Impl>(threads, load, std::move(cores), std::move(time))) {}

InputPipeline::~InputPipeline() = default;

void InputPipeline::next() {
  impl_->next();
}

Duration InputPipeline::burnt() const {
  return impl_->burnt();
}

}  // namespace stretto
