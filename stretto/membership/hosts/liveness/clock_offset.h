#pragma once

#include <map>
#include <optional>

#include "stretto/base/clock.h"

namespace stretto {

/// How far a host's steady clock is ahead of that of host 0, rank 0's.
struct ClockReading {
  Duration ahead{0};
  Duration error{0};  ///< at most, either way
};

/// The times that a beat between two hosts carries, so that their clocks can be compared.
struct BeatTimes {
  /// The last beat that the sender has heard from the receiver.
  struct Echo {
    TimePoint sent;    ///< by the receiver's clock
    Duration held{0};  ///< since the sender has heard it
  };
  TimePoint sent;                            ///< by the sender's clock
  std::optional<Echo> echo = {};             ///< none: it has heard nothing
  std::optional<ClockReading> reading = {};  ///< of the sender's clock; none: it does not know yet
};

/// Finds how far the steady clock of this host is ahead of host 0's, by the beats of the host's neighbours. Pure:
/// neither socket nor thread nor clock. Messages: none beside the beats; bytes: some eighty in each.
///
/// A beat that comes back as an echo has made a round trip. Half of that, without the time for which it was held, is
/// the largest error of what it says about the neighbour's clock (Mills, RFC 5905, section 8); the neighbour's own
/// error comes on top, since only some neighbours are host 0. The reading with the least error counts. Clocks drift
/// apart, so an error grows by a ten-thousandth of the time since, until a newer reading is the better one. A reading
/// that has come from this host round a circle of neighbours has a larger error than this host's own, and never counts.
class ClockOffset {
 public:
  /// `host`: this one.
  explicit ClockOffset(int host) : is_first_(host == 0) {}

  /// The times for a beat that goes to a neighbour now.
  BeatTimes times_for(int neighbour, TimePoint now) const;
  /// A neighbour's beat has come.
  void heard(int neighbour, const BeatTimes& times, TimePoint now);
  /// Whether a beat to the neighbour should go at once, and not when its turn comes: few round trips have been made.
  bool wants_beat(int neighbour) const;
  /// Of this host; none until a beat has made a round trip to a neighbour that has one.
  std::optional<ClockReading> reading(TimePoint now) const;

 private:
  struct Neighbour {
    TimePoint sent, heard_at;  // its last beat, by its clock and by this host's
    int round_trips = 0;
  };

  const bool is_first_;
  std::map<int, Neighbour> neighbours_;
  std::optional<ClockReading> best_;
  TimePoint read_at_;  // best_ was
};

}  // namespace stretto
