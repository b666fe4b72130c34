#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "stretto/base/clock.h"
#include "stretto/collective/base/agreement.h"
#include "stretto/ordering/orderer/orderer.h"
#include "stretto/ordering/waiting/stall.h"

namespace stretto {

/// Looks whether this rank waits for long in a control collective of a process set, asks the other members then whether
/// they have begun it, and says which have not: docs/lab/ordering.md, WHO(b). No messages but where this rank
/// waits for long. Only a rank whose engine no thread drives holds a control collective back: one that merely computes
/// is answered for by its helper thread. The thread that drives the engine.
class AgreementWatch {
 public:
  /// `warning`, `abort`: those of StallLimits. `agreement` and `set` outlive this.
  AgreementWatch(Agreement& agreement, const ProcessSet& set, Duration warning, Duration abort)
      : agreement_(agreement), set_(set), limits_(warning, abort) {}

  /// "step 12, after 10 s: agreement 57 of set 0 is not complete: rank 1 has not answered within 1 s". `waits`: since
  /// when the application waits for the other ranks, in step `step`; nothing: it does not.
  std::optional<StallNotice> look(std::optional<TimePoint> waits, StepNumber step, TimePoint now);
  /// When look() may do something though nothing happens.
  TimePoint look_by() const { return look_by_; }

 private:
  /// Who has not begun the control collective, as far as they have answered.
  std::string who_lacks(std::uint64_t control) const;

  // Fixed after construction.
  Agreement& agreement_;
  const ProcessSet& set_;

  std::optional<std::uint64_t> control_;  // the oldest that is not complete
  TimePoint seen_at_;                     // when that was seen first
  StallLimits limits_;                    // of the wait for it
  TimePoint look_by_ = TimePoint::never();
};

}  // namespace stretto
