// How long a coarse prediction takes, by the number of equal workers and of classes.

#include <benchmark/benchmark.h>

#include "stretto/predict/coarse/coarse_prediction.h"

namespace stretto {
namespace {

void coarse_prediction(benchmark::State& state) {
  TrainingJob job{.model_bytes = 1e8, .bandwidth = 1.25e9};
  for (int c = 0; c < state.range(1); ++c) {
    job.classes.push_back({.count = static_cast<int>(state.range(0) / state.range(1)),
                           .batch = 32,
                           .forward = 0.03 * (c + 1),
                           .backward = 0.06 * (c + 1),
                           .update = 0.002});
  }
  for (auto _ : state) benchmark::DoNotOptimize(predict_coarse(job));
}

BENCHMARK(coarse_prediction)
    ->ArgNames({"workers", "classes"})
    ->Args({10000, 1})
    ->Args({3000, 2})
    ->Args({100000, 10})  // approximated
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace stretto
