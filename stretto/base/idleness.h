#pragma once

#include <chrono>

namespace stretto {

/// Tells whether a thread leaves its core to others, as one does that waits for an accelerator. One thread.
class Idleness {
 public:
  Idleness();
  /// Whether the calling thread has run for less than half of the time since the last call, or since construction.
  bool idles();

 private:
  struct Reading {
    std::chrono::nanoseconds wall, ran;
  };
  static Reading read();

  Reading last_;
};

}  // namespace stretto
