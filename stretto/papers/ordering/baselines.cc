#include "stretto/papers/baselines.h"

#include <cstdint>

#include "stretto/base/random.h"
#include "stretto/check/harness/job_search.h"
#include "stretto/check/harness/searches.h"
#include "stretto/check/ordering/ordering_job.h"
#include "stretto/papers/ordering/cycle_fixes.h"

namespace stretto {
namespace {

/// Without plans, which these ranks do not make.
constexpr auto kCycleReaches = std::span(kOrderingReaches).first<kReachedWithoutPlans>();

/// Runs the job of `seed` as run_ordering_job() does, with a fix of papers/ordering/cycle_fixes.h.
void run_cycle_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding) {
  constexpr std::uint64_t kStream = 0x6669786573;
  const std::span<const CycleFix> fixes = paper_cycle_fixes();
  Random random(seed, kStream);
  const CycleFix& fix = fixes[random.below(fixes.size())];
  run_changed_coordinator(seed, limits, finding, {.fix = &fix, .every = static_cast<int>(random.between(1, 3))});
  finding.reached.resize(kCycleReaches.size());
}

constexpr JobSearch kSearches[] = {
    {"cycles", "the same as ordering, by a coordinator with gs or nbcs", kCycleReaches, run_cycle_job, 2, 5}};

}  // namespace

Baselines ordering_baselines() {
  return {.searches = kSearches, .cycle_fixes = paper_cycle_fixes()};
}

}  // namespace stretto
