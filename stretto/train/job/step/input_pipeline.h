#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "stretto/base/clock.h"

namespace stretto {

/// Threads that prepare the next batch while this one is trained on, as those that read, decode and augment do: they
/// burn processor time, and produce nothing. One batch is prepared ahead. One thread calls.
class InputPipeline {
 public:
  /// Starts `threads` threads, which begin with the first batch. A batch takes `load` of processor time, of which each
  /// thread burns an equal share. `cores`: on which alone they run, by their numbers; empty: on any. `time`: the
  /// processor time that the calling thread has used, in place of thread_time() (tests); called by all threads at once.
  /// Throws Failure (Errc::unavailable) where the system makes no further thread.
  InputPipeline(int threads, Duration load, std::vector<int> cores = {}, std::function<Duration()> time = {});
  ~InputPipeline();  ///< ends the threads in the middle of a batch
  InputPipeline(const InputPipeline&) = delete;
  InputPipeline& operator=(const InputPipeline&) = delete;

  /// A step begins: takes its batch, for which it waits until all threads are through with it, and lets them go on with
  /// the next one.
  void next();
  /// Processor time that all threads have burnt so far. Thread-safe.
  Duration burnt() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stretto
