#include "stretto/train/ordering/ready_order.h"

#include <utility>

#include "stretto/base/error.h"
#include "stretto/base/random.h"

namespace stretto {
namespace {

constexpr int kMostThreads = 64;
constexpr Duration kLookEvery = std::chrono::seconds(1);  // at what another thread has to say anyway

}  // namespace

ReadyOrder::ReadyOrder(const ReadyOrderOptions& options, int rank, Submit submit)
    : options_(options), rank_(rank), submit_(std::move(submit)) {
  if (options.threads < 0 || options.threads > kMostThreads) {
    throw UsageError(text("scheduler threads ", options.threads, ": expected a number from 0, for the thread of the ",
                          "backward pass, to ", kMostThreads));
  }
  for (int i = 0; i < options.threads; ++i) threads_.emplace_back([this] { work(); });
}

ReadyOrder::~ReadyOrder() {
  {
    const MutexLock lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

void ReadyOrder::ready(int parameter) {
  if (options_.shuffle) {
    held_.push_back(parameter);
  } else {
    hand_over(parameter);
  }
}

void ReadyOrder::hand_over(int parameter) {
  if (threads_.empty()) return submit_(parameter);
  const MutexLock lock(mutex_);
  queue_.push_back(parameter);
  ++unfinished_;
  changed_.notify_all();
}

void ReadyOrder::flush() {
  if (options_.shuffle) {
    shuffle(held_, Random(random_bits(*options_.shuffle, static_cast<std::uint64_t>(rank_), flushes_++)));
    for (const int parameter : std::exchange(held_, {})) hand_over(parameter);
  }
  const MutexLock lock(mutex_);
  while (unfinished_ > 0) changed_.wait_for(mutex_, kLookEvery);
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

// Each of the threads.
void ReadyOrder::work() {
  mutex_.lock();
  while (!closed_) {
    if (queue_.empty()) {
      changed_.wait_for(mutex_, kLookEvery);
      continue;
    }
    const int parameter = queue_.front();
    queue_.pop_front();
    mutex_.unlock();
    std::exception_ptr thrown;
    try {
      submit_(parameter);
    } catch (...) {
      thrown = std::current_exception();
    }
    mutex_.lock();
    if (!thrown_) thrown_ = thrown;
    --unfinished_;
    changed_.notify_all();
  }
  mutex_.unlock();
}

}  // namespace stretto
