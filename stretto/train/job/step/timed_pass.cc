#include "stretto/train/job/step/timed_pass.h"

#include <chrono>
#include <utility>

namespace stretto {

PacedStep TimedPass::run(const Pass& pass, std::uint64_t units, const ImbalanceDraw& draw) {
  waited_ = Duration(0);
  if (place_ == nullptr) {
    if (pass.by_layer && pacer_.pace() > Duration::zero()) {
      run_telling(pass, [&](double share) { pacer_.reach(share, units, draw); });
    } else {
      pass.computes();
      pass.ends();
    }
    stand_still(pass);
    return pacer_.end(units, draw);
  }
  const TimePoint begin = place_->clock().now();
  const Duration lasts = paced_step_time(pacer_.pace(), units, draw);
  if (pass.by_layer) {  // in this rank's turn, since it waits for other ranks
    Duration behind{0};
    const auto reach = [&](double share) {
      const Duration until = std::chrono::duration_cast<Duration>(lasts * share);
      if (until > behind) place_->compute(until - std::exchange(behind, until));
    };
    run_telling(pass, reach);
    stand_still(pass);
    reach(1);
  } else {
    place_->compute(lasts, pass.computes);
    pass.ends();
  }
  return {.begin = begin, .computed = Duration(0), .paced = lasts - draw.delay, .delayed = draw.delay};
}

void TimedPass::run_telling(const Pass& pass, FunctionRef<void(double)> progress) {
  ReadsByBucket& reads = *replica_.reads_by_bucket();
  reads.on_progress([&](double share) {
    stand_still(pass);
    progress(share);
  });
  struct End {
    ~End() { reads.on_progress(nullptr); }  // also where the pass throws
    ReadsByBucket& reads;
  } const end{reads};
  pass.computes();
  pass.ends();
}

void TimedPass::stand_still(const Pass& pass) {
  const Duration waited = pass.has_waited();
  waited_ += waited;
  pacer_.stood_still(waited);
}

}  // namespace stretto
