#include "stretto/check/job_search.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/check/diloco/diloco_search.h"
#include "stretto/check/groups/group_search.h"
#include "stretto/check/ordering/ordering_search.h"
#include "stretto/check/partial/bucket_search.h"
#include "stretto/check/threshold/threshold_search.h"

namespace stretto {
namespace {

constexpr std::uint64_t kJudgedFrom = 10'000;  // rounds

constexpr JobSearch kSearches[] = {
    {"group", "models averaged in groups of ranks, others in each round", kGroupReaches,
     [](std::uint64_t seed, int ranks) { return run_group_job(seed, ranks); }, run_group_job},
    {"buckets", "partial collectives whose buckets have rounds of their own", kBucketReaches,
     [](std::uint64_t seed, int ranks) { return run_bucket_job(seed, ranks, std::nullopt); }, run_bucket_job},
    {"diloco", "steps of each rank's own, whose sum one round takes and applies to all", kDilocoReaches,
     run_diloco_job},
    {"threshold", "schedules that go on when k of n messages have come", kThresholdReaches, run_threshold_job, nullptr,
     2, 8},
    {"ordering", "tensors that ranks hand over in any order and reduce in one: coordinator, gs, nbcs and topo",
     kOrderingReaches, run_ordering_job, nullptr, 2, 5},
};

std::string shortfall(const JobSearch& search, const JobSearchResult& result) {
  std::string out;
  for (std::size_t i = 0; i < search.reaches.size(); ++i) {
    if (result.reached[i] == 0) out += text(out.empty() ? "" : ", ", search.reaches[i]);
  }
  return out;
}

}  // namespace

std::span<const JobSearch> job_searches() {
  return kSearches;
}

JobSearchResult search_jobs(const JobSearch& search, const JobSearchOptions& options) {
  JobSearchResult result;
  result.reached.resize(search.reaches.size());
  const auto start = std::chrono::steady_clock::now();
  auto told = start;
  for (std::uint64_t seed = options.first_seed; result.rounds < options.rounds; ++seed) {
    JobFinding finding =
        options.over ? search.run_over(seed, options.ranks, options.over) : search.run(seed, options.ranks);
    ++result.jobs;
    result.rounds += finding.rounds;
    result.messages += finding.messages;
    for (std::size_t i = 0; i < finding.reached.size(); ++i) result.reached[i] += finding.reached[i];
    if (finding.violation) {
      result.violation = std::move(finding.violation);
      result.violating_seed = seed;
      result.job = std::move(finding.job);
      break;
    }
    const auto now = std::chrono::steady_clock::now();
    if (options.progress && now - told > std::chrono::seconds(1)) {
      told = now;
      options.progress(result.rounds);
    }
    if (seed == options.last_seed) break;
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const bool judged = options.ranks == 0 && !options.over && result.rounds >= kJudgedFrom;
  if (judged && !result.violation) result.shortfall = shortfall(search, result);
  return result;
}

}  // namespace stretto
