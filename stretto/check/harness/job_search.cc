#include "stretto/check/harness/job_search.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "stretto/base/error.h"

namespace stretto {
namespace {

constexpr std::uint64_t kJudgedFrom = 10'000;  // rounds

std::string shortfall(const JobSearch& search, const JobSearchResult& result) {
  std::string out;
  for (std::size_t i = 0; i < search.reaches.size(); ++i) {
    const auto& [name, share, of] = search.reaches[i];
    const auto other = std::ranges::find(search.reaches, of, &Situation::name);
    const bool of_rounds = other == search.reaches.end();
    const std::uint64_t all =
        of_rounds ? result.rounds : result.reached[static_cast<std::size_t>(other - search.reaches.begin())];
    const std::uint64_t count = result.reached[i];
    if (count > 0 && static_cast<double>(count) >= share * static_cast<double>(all)) continue;
    out += text(out.empty() ? "" : ", ", name, ": ", count, " in ", all, ' ', of_rounds ? "rounds" : of);
  }
  return out;
}

}  // namespace

JobFinding run_job(const JobSearch& search, std::uint64_t seed, const JobLimits& limits) {
  JobFinding finding;
  finding.reached.resize(search.reaches.size());
  const CheckFailuresThrow checks_throw;
  try {
    search.run(seed, limits, finding);
  } catch (const CheckFailure& failure) {
    finding.violated(text("internal check: ", failure.what()));
  }
  return finding;
}

JobSearchResult search_jobs(const JobSearch& search, const JobSearchOptions& options) {
  JobSearchResult result;
  result.reached.resize(search.reaches.size());
  const auto start = std::chrono::steady_clock::now();
  auto told = start;
  for (std::uint64_t seed = options.first_seed; result.rounds < options.rounds; ++seed) {
    JobFinding finding = run_job(search, seed, options.limits);
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
  const JobLimits& limits = options.limits;
  const bool judged = limits.ranks == 0 && !limits.over && !limits.policy && result.rounds >= kJudgedFrom;
  if (judged && !result.violation) result.shortfall = shortfall(search, result);
  return result;
}

}  // namespace stretto
