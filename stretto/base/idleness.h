#pragma once

#include <chrono>

namespace stretto {

/// Tells whether a thread leaves its core to others, as one does that waits for an accelerator. One thread.
class Idleness {
 public:
  Idleness() { begin(); }
  /// Counts from here on, for the calling thread.
  void begin() { last_ = read(); }
  /// Whether the thread has run for less than half of the time since the last call of either.
  bool idles();

 private:
  struct Reading {
    std::chrono::nanoseconds wall, ran;
  };
  static Reading read();

  Reading last_;
};

}  // namespace stretto
