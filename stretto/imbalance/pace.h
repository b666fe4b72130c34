#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "stretto/base/clock.h"
#include "stretto/base/doorbell.h"
#include "stretto/imbalance/source.h"

namespace stretto {

/// How long a step takes where computing itself takes no time: `pace` for each unit of work, times the factor drawn,
/// plus the delay drawn.
Duration paced_step_time(Duration pace, std::uint64_t units, const ImbalanceDraw& draw);

/// Blocks until that point of SteadyClock, signals or not. Sets the calling thread's timer slack to a microsecond.
void sleep_until(TimePoint when);

/// The same, but returns as soon as the word, which processes share, has another value than it was seen to have.
void sleep_until_changed(TimePoint when, FutexWait unless);

/// Where the time of one step went, in this order.
struct PacedStep {
  TimePoint begin;
  Duration computed{0};  ///< really
  Duration paced{0};     ///< slept, until the computation had lasted as long as pace and factor say
  Duration delayed{0};   ///< slept, because of the delay drawn (all of this is injected)
};

/// Makes the steps of one rank last as long as they would on the machine that is emulated: an accelerator of a given
/// pace, injected delays. It sleeps, so that many ranks on few cores show the algorithm and not the scheduler.
/// Without pace, factor and delay it does nothing but measure. One thread.
class Pacer {
 public:
  /// `sleep` must return when `clock` has reached the point it is given. `clock` must outlive the pacer.
  /// pace 0: none. Throws UsageError if it is negative.
  Pacer(Duration pace, const Clock& clock, std::function<void(TimePoint)> sleep = sleep_until);

  Duration pace() const { return pace_; }

  /// A computation begins.
  void begin();
  /// Since begin() the computation has stood still for so long, which counts as no part of it.
  void stood_still(Duration waited) { begin_ = begin_ + waited; }
  /// Within the computation: sleeps until so large a share of what pace and factor ask of all of it is over.
  void reach(double share, std::uint64_t units, const ImbalanceDraw& draw);
  /// The computation is over: sleeps as long as the pace for `units` of work and `draw` ask. Sleeps once, until an
  /// absolute time, so that a step which oversleeps does not delay the next. Requires: begin() before it.
  PacedStep end(std::uint64_t units, const ImbalanceDraw& draw);

  /// Real computing time / time it was stretched to, over all steps; 0 without a pace.
  double real_compute_share() const;
  /// Steps whose real computation took longer than their pace.
  std::uint64_t overruns() const { return overruns_; }

  /// From this share on emulated speeds are those of the machine rather than of the pace.
  static constexpr double kMaxShare = 0.25;

 private:
  const Duration pace_;
  const Clock& clock_;
  const std::function<void(TimePoint)> sleep_;
  TimePoint begin_;
  Duration slept_{0};  // since then
  Duration total_computed_{0};
  Duration total_target_{0};
  std::uint64_t overruns_ = 0;
};

/// A line that says what would help, if `share` is above Pacer::kMaxShare; otherwise empty.
std::optional<std::string> pace_warning(double share, Duration pace);

}  // namespace stretto
