#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stretto {

/// A length of time, in nanoseconds; std::chrono's literals convert (`20ms`).
using Duration = std::chrono::nanoseconds;

/// A point on the clock of one process or of one simulation; only differences mean something.
struct TimePoint {
  Duration since_start{0};  ///< since a start that the clock has chosen

  friend auto operator<=>(const TimePoint&, const TimePoint&) = default;                         ///< earlier is less
  friend TimePoint operator+(TimePoint t, Duration d) { return {t.since_start + d}; }            ///< later by `d`
  friend TimePoint operator-(TimePoint t, Duration d) { return {t.since_start - d}; }            ///< earlier by `d`
  friend Duration operator-(TimePoint a, TimePoint b) { return a.since_start - b.since_start; }  ///< from `b` to `a`

  /// Later than every other: as a deadline, none.
  static constexpr TimePoint never() { return {Duration::max()}; }
};

/// As a number of seconds.
inline double seconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}
/// `s` seconds, rounded toward zero to whole nanoseconds.
inline Duration from_seconds(double s) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(s));
}

/// Monotonic time. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;  ///< never earlier than what an earlier call has returned
};

/// The operating system's monotonic clock, the same for all processes of a host.
class SteadyClock final : public Clock {
 public:
  TimePoint now() const override {
    return {std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch())};
  }
};

/// Reads a length of time such as "200ms", "1.5s", "50us" or "50µs", "300ns", "0". Returns nothing for other text, for
/// a negative time, and for one longer than kLongestDuration.
std::optional<Duration> parse_duration(std::string_view written);

/// The same, but throws a UsageError in which the value is called `what`.
Duration require_duration(const std::string& what, const std::string& written);

/// The inverse of parse_duration(), exact to the nanosecond: "1.5s". Requires: not negative.
std::string to_text(Duration duration);

inline constexpr Duration kLongestDuration = std::chrono::hours(24 * 10);  ///< that parse_duration() reads

}  // namespace stretto
