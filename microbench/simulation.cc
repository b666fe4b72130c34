// How many rounds a second one core checks: `stretto check` in small, at a given number of ranks.

#include <benchmark/benchmark.h>

#include "stretto/check/job_searches.h"

namespace stretto {
namespace {

void checked_rounds(benchmark::State& state) {
  const JobLimits limits{.ranks = static_cast<int>(state.range(0))};
  std::uint64_t seed = 1;
  std::uint64_t rounds = 0;
  for (auto _ : state) {
    const JobFinding finding = run_job(job_searches().front(), seed++, limits);
    if (finding.violation) return state.SkipWithError(finding.violation->c_str());
    rounds += finding.rounds;
  }
  state.counters["rounds/s"] = benchmark::Counter(static_cast<double>(rounds), benchmark::Counter::kIsRate);
}

BENCHMARK(checked_rounds)->ArgName("ranks")->Arg(2)->Arg(8)->Arg(33)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace stretto
