#include "stretto/membership/hosts/liveness/clock_offset.h"

#include <algorithm>

namespace stretto {
namespace {

constexpr int kDrift = 10'000;         // an error grows by a nanosecond in so many
constexpr int kRoundTripsAtFirst = 4;  // which follow one another at once

}  // namespace

std::optional<ClockReading> ClockOffset::reading(TimePoint now) const {
  if (is_first_) return ClockReading{};
  if (!best_) return std::nullopt;
  return ClockReading{.ahead = best_->ahead, .error = best_->error + (now - read_at_) / kDrift};
}

bool ClockOffset::wants_beat(int neighbour) const {
  const auto known = neighbours_.find(neighbour);
  return known == neighbours_.end() || known->second.round_trips < kRoundTripsAtFirst;
}

BeatTimes ClockOffset::times_for(int neighbour, TimePoint now) const {
  BeatTimes times{.sent = now, .reading = reading(now)};
  if (const auto known = neighbours_.find(neighbour); known != neighbours_.end()) {
    times.echo = BeatTimes::Echo{.sent = known->second.sent, .held = now - known->second.heard_at};
  }
  return times;
}

void ClockOffset::heard(int neighbour, const BeatTimes& times, TimePoint now) {
  Neighbour& from = neighbours_[neighbour];
  from.sent = times.sent;
  from.heard_at = now;
  if (!times.echo) return;
  ++from.round_trips;
  if (!times.reading || is_first_) return;
  const BeatTimes::Echo& echo = *times.echo;
  const Duration round_trip = std::max(Duration::zero(), (now - echo.sent) - echo.held);
  // Each way says how far the neighbour's clock is ahead, but for the way's own length; both ways have opposite signs.
  const Duration there = (times.sent - echo.held) - echo.sent;
  const Duration back = times.sent - now;
  const ClockReading found{.ahead = times.reading->ahead - (there + back) / 2,
                           .error = times.reading->error + round_trip / 2};
  if (const auto before = reading(now); before && before->error < found.error) return;
  best_ = found;
  read_at_ = now;
}

}  // namespace stretto
