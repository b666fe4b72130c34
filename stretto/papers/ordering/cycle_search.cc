#include "stretto/papers/ordering/cycle_search.h"

#include "stretto/base/random.h"
#include "stretto/check/ordering/ordering_job.h"
#include "stretto/papers/ordering/cycle_fixes.h"

namespace stretto {

void run_cycle_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding) {
  constexpr std::uint64_t kStream = 0x6669786573;
  const std::span<const CycleFix> fixes = paper_cycle_fixes();
  Random random(seed, kStream);
  const CycleFix& fix = fixes[random.below(fixes.size())];
  run_changed_coordinator(seed, limits, finding, {.fix = &fix, .every = static_cast<int>(random.between(1, 3))});
  finding.reached.resize(kCycleReaches.size());
}

}  // namespace stretto
