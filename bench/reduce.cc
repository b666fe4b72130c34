// How fast contributions are added: the inner loop of every reduction.

#include "stretto/kernel/reduce.h"

#include <benchmark/benchmark.h>

#include <cstddef>
#include <vector>

namespace stretto {
namespace {

void reduce_buckets(benchmark::State& state, DataType type, ReduceOp op) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::vector<std::byte> dst(bytes), src(bytes);
  for (auto _ : state) {
    reduce(type, op, false, dst.data(), src.data(), bytes / size_of(type));
    benchmark::DoNotOptimize(dst.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

BENCHMARK_CAPTURE(reduce_buckets, float32_sum, DataType::float32, ReduceOp::sum)->Range(64, 4 << 20);
BENCHMARK_CAPTURE(reduce_buckets, float32_max, DataType::float32, ReduceOp::max)->Arg(64 << 10);
BENCHMARK_CAPTURE(reduce_buckets, float64_sum, DataType::float64, ReduceOp::sum)->Arg(64 << 10);

}  // namespace
}  // namespace stretto
