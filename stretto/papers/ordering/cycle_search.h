#pragma once

#include <cstdint>

#include "stretto/check/job_search.h"
#include "stretto/check/searches.h"

namespace stretto {

/// Without plans, which these ranks do not make.
inline constexpr auto kCycleReaches = std::span(kOrderingReaches).first<kReachedWithoutPlans>();

/// Runs the job of `seed` as run_ordering_job() does, with a fix of papers/ordering/cycle_fixes.h.
void run_cycle_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding);

}  // namespace stretto
