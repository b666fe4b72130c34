#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "stretto/base/clock.h"

namespace stretto {

/// Reads a length of time such as "200ms", "1.5s", "50us" or "50µs", "300ns", "0". Returns nothing for other text, for
/// a negative time, and for one longer than kLongestDuration.
std::optional<Duration> parse_duration(std::string_view written);

/// The same, but throws a UsageError in which the value is called `what`.
Duration require_duration(const std::string& what, const std::string& written);

/// The inverse of parse_duration(), exact to the nanosecond: "1.5s". Requires: not negative.
std::string to_text(Duration duration);

inline constexpr Duration kLongestDuration = std::chrono::hours(24 * 10);

}  // namespace stretto
