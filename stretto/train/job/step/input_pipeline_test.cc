#include "stretto/train/job/step/input_pipeline.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "stretto/base/machine/cores.h"
#include "stretto/base/mutex.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

/// Processor time of threads that passes by looking at it: a millisecond a look, on any machine. Each thread has its
/// own, and no more of it than the test allows. Thread-safe.
class LookedTime {
 public:
  static constexpr Duration kTick = 1ms;

  /// `share`: of a batch, of each thread.
  explicit LookedTime(Duration share) : looks_(share / kTick + 1) {}

  /// Each thread has the time for so many batches in all. Without a call: for any number.
  void allow(int batches) {
    MutexLock lock(mutex_);
    most_ = batches * looks_ * kTick;
  }
  /// What InputPipeline looks at. Must not outlive this.
  std::function<Duration()> of_threads() {
    return [this] {
      MutexLock lock(mutex_);
      Duration& mine = passed_[std::this_thread::get_id()];
      const Duration now = mine;
      if (mine < most_) mine += kTick;
      return now;
    };
  }
  /// How many threads have looked so far.
  std::size_t threads() {
    MutexLock lock(mutex_);
    return passed_.size();
  }
  /// Whether the calling thread has.
  bool looked() {
    MutexLock lock(mutex_);
    return passed_.contains(std::this_thread::get_id());
  }

 private:
  const std::int64_t looks_;  // of a thread at a batch
  Mutex mutex_;
  std::map<std::thread::id, Duration> passed_ GUARDED_BY(mutex_);
  Duration most_ GUARDED_BY(mutex_) = Duration::max();
};

TEST(InputPipeline, BurnsItsLoadForEachBatchAndOneAhead) {
  LookedTime time(2ms);
  InputPipeline pipeline(2, 4ms, {}, time.of_threads());
  for (int batches = 1; batches <= 1000; ++batches) {
    pipeline.next();
    const Duration burnt = pipeline.burnt();
    EXPECT_GE(burnt, batches * 4ms) << "a step has its batch when all threads are through with it";
    EXPECT_LE(burnt, (batches + 1) * 4ms) << "more than one batch ahead";
  }
}

TEST(InputPipeline, DoesNotHoldUpAStepThatHasItsBatch) {
  LookedTime time(20ms);
  time.allow(1);
  InputPipeline pipeline(1, 20ms, {}, time.of_threads());
  pipeline.next();  // returns while the second batch cannot be ready
  EXPECT_EQ(pipeline.burnt(), 20ms);
  time.allow(2);
  pipeline.next();  // sleeps until the second batch is there
  EXPECT_EQ(pipeline.burnt(), 40ms);
  EXPECT_FALSE(time.looked()) << "the caller has burnt time itself";
}

/// It returns, or CTest's watchdog ends the test: no thread is ever through with its batch.
TEST(InputPipeline, EndsInTheMiddleOfABatch) {
  LookedTime time(1200s);
  time.allow(0);
  InputPipeline pipeline(3, 3600s, {}, time.of_threads());
  while (time.threads() < 3) std::this_thread::yield();
}

TEST(InputPipeline, RunsOnTheCoresItIsGiven) {
  const std::vector<int> usable = usable_cores();
  Mutex mutex;
  std::set<std::vector<int>> cores;  // on which its threads may run
  const auto time = [&] {
    MutexLock lock(mutex);
    cores.insert(usable_cores());
    return thread_time();
  };
  {
    InputPipeline pipeline(2, 2ms, {usable.back()}, time);
    pipeline.next();
    pipeline.next();
    EXPECT_GE(pipeline.burnt(), 4ms);
  }
  EXPECT_EQ(cores, (std::set<std::vector<int>>{{usable.back()}}));
  EXPECT_EQ(usable_cores(), usable) << "the caller's own cores have changed";
}

TEST(InputPipeline, BurnsProcessorTime) {
  InputPipeline pipeline(2, 2ms);
  pipeline.next();
  EXPECT_GE(pipeline.burnt(), 2ms);
}

}  // namespace
}  // namespace stretto
