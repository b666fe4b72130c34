#pragma once

#include <string>

#include "stretto/predict/measured/chrome_events.h"
#include "stretto/predict/measured/step_times.h"

namespace stretto {

/// A Horovod timeline (HOROVOD_TIMELINE), which its rank 0 writes of all ranks: each tensor is a process of the trace;
/// while it is negotiated, an event of length 0 with a rank's number as its name is where that rank has come with it. A
/// step begins when a tensor is negotiated that already was since the step before. In a step a rank has computed from
/// the end of the last collective of the step before until it came with its last tensor. So the first step has no time,
/// and steps are counted from the second. Of the timeline of a job that was killed the last step does not count where
/// it has fewer collectives than the one before, or some that have not ended; StepTimes::notes() says so.
///
/// Errc::bad_input where a rank has come to fewer collectives of a step than another, and where the timeline does not
/// say who came when, which it does with HOROVOD_CACHE_CAPACITY=0; errors of read_chrome_events() besides.
Result<StepTimes> read_horovod_timeline(const std::string& file, const ReadProgress& progress = {});

}  // namespace stretto
