// How long a round of the partial allreduce takes between processes of one host when no rank is late: activation,
// reduction, hand-over, on the board of the host.

#include <benchmark/benchmark.h>

#include <charconv>
#include <string>

#include "stretto/collective/partial_allreduce.h"
#include "stretto/engine/driver.h"
#include "stretto/engine/engine.h"
#include "stretto/membership/job.h"

namespace stretto {
namespace {

constexpr int kRounds = 50;  // a job; starting its processes is not measured

// Rank 0 reports the seconds that its rounds took.
int run_rounds(RankContext& context, std::uint64_t bytes, const Policy& policy) {
  using namespace std::chrono_literals;
  const SteadyClock clock;
  Engine engine(context.world().transport(), clock);
  PartialAllreduce partial(engine, {{DataType::float32, bytes / sizeof(float)}}, {.policy = policy});
  EngineDriver driver(engine);
  const auto ignore = [](const RoundResult&) {};
  const auto round = [&] {
    partial.deposit(partial.acquire(), {});
    partial.exchange(driver, clock.now() + 30s, ignore).or_throw();
  };
  round();  // the first one waits for the last process to start
  const TimePoint begin = clock.now();
  for (int i = 0; i < kRounds; ++i) round();
  const double taken = seconds(clock.now() - begin);
  partial.finish(driver, clock.now() + 30s, ignore).or_throw();
  if (context.rank() == 0) context.report(std::to_string(taken));
  return 0;
}

void round_of(benchmark::State& state, const Policy& policy) {
  const auto ranks = static_cast<int>(state.range(0));
  const auto bytes = static_cast<std::uint64_t>(state.range(1));
  for (auto _ : state) {
    const auto job =
        run_job({.ranks = ranks}, [&](RankContext& context) { return run_rounds(context, bytes, policy); });
    if (!job || !job->ok()) return state.SkipWithError("the job failed");
    const std::string& report = job->reports[0];
    double taken = 0;
    std::from_chars(report.data(), report.data() + report.size(), taken);
    state.SetIterationTime(taken / kRounds);
  }
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"ranks", "bytes"})->UseManualTime()->Unit(benchmark::kMicrosecond);
  for (const int ranks : {2, 8}) {
    for (const int bytes : {64, 64 << 10, 4 << 20}) benchmark->Args({ranks, bytes});
  }
}

BENCHMARK_CAPTURE(round_of, full, Policy::full())->Apply(sizes);
BENCHMARK_CAPTURE(round_of, solo, Policy::solo())->Apply(sizes);

}  // namespace
}  // namespace stretto
