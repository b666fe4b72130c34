#include <algorithm>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"
#include "stretto/base/random.h"
#include "stretto/check/harness/searches.h"
#include "stretto/check/partial/bucket_oracle.h"
#include "stretto/check/partial/oracle.h"
#include "stretto/check/partial/rank_actor.h"
#include "stretto/check/partial/scenario.h"

namespace stretto {
namespace {

constexpr std::uint64_t kBucketStream = 0x6275636b657473;

/// The scenario of a job whose buckets have rounds of their own.
Scenario draw_bucket_scenario(std::uint64_t seed, const JobLimits& limits) {
  Random random(seed, kBucketStream);
  Scenario s =
      draw_scenario(seed, {.ranks = limits.ranks > 0 ? limits.ranks : static_cast<int>(random.log_uniform(1, 12))});
  s.buckets.resize(random.between(2, 5));
  const std::uint64_t told = 2 * static_cast<std::uint64_t>(s.ranks);  // elements that say what a sum holds
  for (auto& bucket : s.buckets) bucket = {DataType::int64, told + random.log_uniform(1, 500)};
  s.options.buckets_per_round = random.chance(0.7) ? 1 : 2;
  s.options.delivery = Delivery::every;
  const Over drawn = random.chance(0.5) ? Over::board : Over::messages;
  const bool meet = s.ranks > 1 && limits.over.value_or(drawn) != Over::messages;
  s.machines.over = meet ? Over::board : Over::messages;
  s.machines.members = Members(s.ranks);
  s.crashes_with_host = false;
  s.options.seats = meet ? 0 : 1;
  s.bucketwise = random.chance(0.6);
  return s;
}

}  // namespace

void run_partial_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding) {
  Scenario scenario = draw_scenario(seed, limits);
  finding.job = scenario.to_string();
  if (defect(Defect::full_beside_the_rounds)) scenario.options.full_every = 0;
  Oracle oracle(scenario, finding);
  run_ranks(scenario, oracle, finding);
  oracle.count_rounds();
}

void run_bucket_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding) {
  const Scenario scenario = draw_bucket_scenario(seed, limits);
  finding.job = text(scenario.to_string(), ", rounds of ", scenario.options.buckets_per_round, " buckets");
  BucketOracle oracle(scenario, finding);
  run_ranks(scenario, oracle, finding);
}

}  // namespace stretto
