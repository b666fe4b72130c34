#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "command/cli/exit_code.h"
#include "stretto/base/clock.h"

namespace stretto::command {

/// Shows how far a run is, on standard error: a bar with rate and remaining time on a terminal, else a plain line
/// every ten seconds; a signal that ends the run says it, too. One thread, and one object at a time.
class Progress {
 public:
  /// `unit` names the things counted: "batches"; `total` 0: their number is not known.
  Progress(std::string label, std::string unit, std::uint64_t total);
  ~Progress();  ///< takes the bar away
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Costs next to nothing when it is too early to show anything new.
  void update(std::uint64_t done);
  /// From now on the rate is shown beside this one.
  void expect(double rate) { expected_ = rate; }
  /// Prints a line of its own, above the bar.
  void line(const std::string& text);

 private:
  const SteadyClock clock_;
  const std::string label_;
  const std::string unit_;
  const std::uint64_t total_;
  const bool terminal_;
  const TimePoint start_;
  TimePoint shown_;
  std::atomic<std::uint64_t> done_{0};
  const ToldWhenInterrupted told_{done_, unit_};
  double expected_ = 0;
  bool drawn_ = false;
};

/// "vowels sync  [=====>    ]  1200/2700 batches  450/s  0:03 left"; `width` of the bar 0: without one.
/// With an `expected` rate "450/s, predicted 462/s".
std::string progress_line(const std::string& label, const std::string& unit, std::uint64_t done, std::uint64_t total,
                          double seconds, int width, double expected = 0);

}  // namespace stretto::command
