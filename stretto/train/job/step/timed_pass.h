#pragma once

#include <cstdint>

#include "stretto/base/clock.h"
#include "stretto/base/function_ref.h"
#include "stretto/imbalance/pace.h"
#include "stretto/simulate/virtual_ranks.h"
#include "stretto/train/replica/replica.h"

namespace stretto {

/// The passes of one rank, which last as long as pace and delays ask: really, or on a virtual clock, where computing
/// takes no other time.
class TimedPass {
 public:
  /// One of them, forward and backward.
  struct Pass {
    FunctionRef<void()> computes;
    FunctionRef<void()> ends;            ///< after that: hands over what is left
    FunctionRef<Duration()> has_waited;  ///< inside it for weights, since this was asked last
    bool by_layer = false;               ///< it waits for weights layer by layer; of a replica with ReadsByBucket
  };

  /// `place`: on a virtual clock, else null. All outlive this object.
  TimedPass(Replica& replica, Pacer& pacer, VirtualRank* place) : replica_(replica), pacer_(pacer), place_(place) {}

  /// Runs a pass. Time in which the pass waits for weights is no part of the step. After Pacer::begin().
  PacedStep run(const Pass& pass, std::uint64_t units, const ImbalanceDraw& draw);
  /// The time that the last pass has waited for weights.
  Duration waited() const { return waited_; }

 private:
  void run_telling(const Pass& pass, FunctionRef<void(double)> progress);
  void stand_still(const Pass& pass);

  Replica& replica_;
  Pacer& pacer_;
  VirtualRank* const place_;
  Duration waited_{0};
};

}  // namespace stretto
