#pragma once

#include <chrono>

namespace stretto {

/// Tells whether a thread leaves its core to others, as a thread does that waits for an accelerator. One thread.
class Idleness {
 public:
  /// Two clocks: the time, and how long of it the calling thread has run.
  struct Reading {
    std::chrono::nanoseconds wall, ran;
  };

  explicit Idleness(Reading (*read)() = read_clocks) : read_(read) { begin(); }
  /// Counts from here on, for the calling thread.
  void begin() { last_ = read_(); }
  /// Whether the calling thread has run for less than half of the time since the last begin() or idles().
  bool idles();

 private:
  /// Of the machine.
  static Reading read_clocks();

  Reading (*read_)();
  Reading last_;
};

}  // namespace stretto
