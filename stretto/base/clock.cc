#include "stretto/base/clock.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include "stretto/base/error.h"

namespace stretto {
namespace {

struct TimeUnit {
  const char* name;
  std::int64_t nanoseconds;
};
constexpr TimeUnit kTimeUnits[] = {{"s", 1'000'000'000}, {"ms", 1'000'000}, {"us", 1'000}, {"µs", 1'000}, {"ns", 1}};
constexpr TimeUnit kLongUnits[] = {{"h", 3600'000'000'000}, {"min", 60'000'000'000}};  // read, and never written

}  // namespace

std::optional<Duration> parse_duration(std::string_view written) {
  double value = 0;
  const char* const last = written.data() + written.size();
  const auto [end, error] = std::from_chars(written.data(), last, value);
  if (error != std::errc{} || !(value >= 0)) return std::nullopt;
  const std::string_view rest(end, static_cast<std::size_t>(last - end));
  if (rest.empty() && value == 0) return Duration{0};
  const auto unit_among = [rest](std::span<const TimeUnit> units) {
    const auto found = std::ranges::find(units, rest, [](const TimeUnit& unit) { return std::string_view(unit.name); });
    return found != units.end() ? &*found : nullptr;
  };
  const TimeUnit* unit = unit_among(kTimeUnits);
  if (unit == nullptr) unit = unit_among(kLongUnits);
  if (unit == nullptr) return std::nullopt;
  const double nanoseconds = value * static_cast<double>(unit->nanoseconds);
  if (nanoseconds > static_cast<double>(kLongestDuration.count())) return std::nullopt;
  return Duration{std::llround(nanoseconds)};
}

Duration require_duration(const std::string& what, const std::string& written) {
  if (const auto duration = parse_duration(written)) return *duration;
  throw UsageError(text(what, " '", written,
                        "' is no length of time: expected a number and ns, us, ms, s, min or h, at most ",
                        seconds(kLongestDuration) / 86400, " days, such as 20ms"));
}

std::string to_text(Duration duration) {
  if (duration == Duration::zero()) return "0s";
  const TimeUnit* unit = kTimeUnits;
  while (duration.count() < unit->nanoseconds) ++unit;
  std::string fraction = std::to_string(unit->nanoseconds + duration.count() % unit->nanoseconds).substr(1);
  fraction.erase(fraction.find_last_not_of('0') + 1);
  return text(duration.count() / unit->nanoseconds, fraction.empty() ? "" : ".", fraction, unit->name);
}

}  // namespace stretto
