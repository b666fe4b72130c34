#pragma once

#include <vector>

#include "stretto/base/clock.h"

namespace stretto::command {

/// A thread that sleeps again and again on a core where others compute.
struct OversleepExperiment {
  int beside = 0;      ///< threads that compute on the same core
  bool spins = false;  ///< the thread keeps the core busy for `asked` between two sleeps, as if it waited for others
  Duration asked = std::chrono::milliseconds(5);  ///< how long it asks to sleep
  int sleeps = 200;
};

struct Oversleeps {
  std::vector<double> seconds;  ///< later than asked, of each sleep
  double processor = 0;         ///< seconds of the thread for one sleep, without what it spins
};

/// On the first core that this process may use. Throws Failure (Errc::io) where no thread can stay on it.
Oversleeps measure_oversleep(const OversleepExperiment& experiment);

/// The time that a computing thread loses to a spinning one on the same core.
struct SpinPauses {
  double short_share = 0;       ///< of the time beside it: lost in pauses shorter than a millisecond
  double per_second = 0;        ///< longer pauses, by the time beside it
  double alone_share = 0;       ///< of the time alone: lost in pauses of any length
  std::vector<double> seconds;  ///< the longer pauses beside it
};

/// Computes for `time` alone and for `time` beside a thread that spins. Throws as measure_oversleep().
SpinPauses measure_spin_pauses(Duration time);

}  // namespace stretto::command
