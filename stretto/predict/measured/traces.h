#pragma once

#include <string>
#include <vector>

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

/// Traces of PyTorch's profiler (Kineto), a file a rank, of a job that trains by ordinary collectives: those of
/// torch.distributed over gloo or MPI, and the kernels of NCCL. A step begins at a mark of profiler.step(), or else at
/// a forward pass of DistributedDataParallel.
///
/// All ranks reach the end of a step's last collective together; from there to that of the next step a rank computes or
/// waits. It waits in its collectives: of the ranks' durations of one the shortest is about its cost, and what others
/// take longer is the lateness of the last; neither is part of what a rank computed. Of collectives that overlap it
/// waits for the one that was called last: until then it was computing what that one brings. Of NCCL only the kernels
/// are seen: what a rank computes while the first of them waits counts as waiting.
///
/// What the last rank of a step spends in its collectives is their cost (StepTimes::exchange()). Where different ranks
/// are last in several that do not overlap this is too much, by what the ranks waited for each other between them.
///
/// The first step has no time. Of a trace that is cut off its last step does not count, and of the others none that it
/// lacks; StepTimes::notes() says so. Errc::bad_input where an event has no time or length, a trace has no two steps or
/// no collectives, a rank is missing or there twice, or ranks have different numbers of collectives in a step; errors
/// of read_chrome_events() besides.
Result<StepTimes> read_kineto_traces(const std::string& source, const std::vector<std::string>& files,
                                     const ReadProgress& progress = {});

}  // namespace stretto
