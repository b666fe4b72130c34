#include "stretto/check/partial/partial_search.h"

#include "stretto/base/defect.h"
#include "stretto/check/partial/rank_actor.h"
#include "stretto/check/partial/scenario.h"

namespace stretto {

void run_partial_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding) {
  Scenario scenario = draw_scenario(seed, limits);
  finding.job = scenario.to_string();
  if (defect(Defect::full_beside_the_rounds)) scenario.options.full_every = 0;
  Oracle oracle(scenario, finding);
  run_ranks(scenario, oracle, finding);
  oracle.count_rounds();
}

}  // namespace stretto
