#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "stretto/base/clock.h"
#include "stretto/transport/transport.h"

namespace stretto {

/// The progress and lines of a run's ranks, for the process that watches it, in memory that all of them share.
/// Thread-safe, between processes, too. Nothing here says when other memory is ready, so relaxed order would do; the
/// lines told are an exception.
class ProgressPage {
 public:
  /// This rank has applied so much. Ranks are at different places; the page keeps the farthest.
  void applied(std::uint64_t batches, std::uint64_t rounds);
  void started(TimePoint when);

  std::uint64_t batches() const { return batches_.load(std::memory_order_relaxed); }
  std::uint64_t rounds() const { return rounds_.load(std::memory_order_relaxed); }
  /// Of the first step; none before it.
  std::optional<TimePoint> start() const;

  /// A rank is lost, or has ended because of an error: those that sleep wake up.
  void stop();
  bool stopped() const { return stopped_.load(std::memory_order_relaxed) != 0; }
  /// Returns when SteadyClock has reached `when`, or stop() has been called.
  void sleep_until(TimePoint when);

  /// From now on tell() writes to standard error itself: no other process reads this page.
  void print_lines() { print_.store(true, std::memory_order_relaxed); }
  /// Leaves a line for the process that watches; lost when the last ones have not been read.
  void tell(const std::string& line);
  /// Whether no rank has told anything about this round yet; true once.
  bool claim(Round round);
  /// The next line that was told.
  std::optional<std::string> take_line();

 private:
  static constexpr std::size_t kLineBytes = 496;
  struct Line {
    enum State : std::uint32_t { empty, writing, ready };
    std::atomic<std::uint32_t> state{empty};  // ready: its store pairs with the load in take_line()
    std::array<char, kLineBytes> text{};
  };

  std::atomic<std::uint64_t> batches_{0};
  std::atomic<std::uint64_t> rounds_{0};
  std::atomic<std::int64_t> start_{0};  // nanoseconds, 0: not yet
  std::atomic<Round> claimed_{0};       // the last round something was told about, plus one
  std::atomic<bool> print_{false};
  std::atomic<std::uint32_t> stopped_{0};  // sleep_until() sleeps on it
  std::array<Line, 8> lines_;
};

/// A ProgressPage that this process shares with those it forks from now on. Nothing stays behind.
class SharedProgressPage {
 public:
  /// Throws Failure (Errc::unavailable) when there is no memory.
  SharedProgressPage();
  ~SharedProgressPage();
  SharedProgressPage(const SharedProgressPage&) = delete;
  SharedProgressPage& operator=(const SharedProgressPage&) = delete;
  ProgressPage& operator*() const { return *page_; }
  ProgressPage* operator->() const { return page_; }

 private:
  ProgressPage* page_;
};

}  // namespace stretto
