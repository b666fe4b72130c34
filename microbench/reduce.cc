// How fast contributions are added: the inner loop of every reduction.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <string>
#include <vector>

#include "stretto/base/words.h"
#include "stretto/kernel/combine.h"

namespace stretto {
namespace {

void reduce_buckets(benchmark::State& state, DataType type, ReduceOp op) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::vector<std::byte> dst(bytes), src(bytes);
  for (auto _ : state) {
    reduce(type, op, dst.data(), dst.data(), src.data(), bytes / size_of(type));
    benchmark::DoNotOptimize(dst.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

BENCHMARK_CAPTURE(reduce_buckets, float32_sum, DataType::float32, ReduceOp::sum)->Range(64, 4 << 20);
BENCHMARK_CAPTURE(reduce_buckets, float32_max, DataType::float32, ReduceOp::max)->Arg(64 << 10);
BENCHMARK_CAPTURE(reduce_buckets, float64_sum, DataType::float64, ReduceOp::sum)->Arg(64 << 10);

/// Bytes a second are those read; range(0) sources of range(1) bytes each.
void combine_sources(benchmark::State& state, const Kernels& kernels, const Combination& combination, DataType type,
                     Stores stores) {
  const auto bytes = static_cast<std::size_t>(state.range(1));
  std::vector<std::vector<std::byte>> memory(static_cast<std::size_t>(state.range(0)), std::vector<std::byte>(bytes));
  std::vector<const std::byte*> sources;
  for (const auto& source : memory) sources.push_back(source.data());
  std::vector<std::byte> dst(bytes);
  for (auto _ : state) {
    combine(kernels, combination, type, ReduceOp::sum, dst.data(), sources, bytes / size_of(type), stores);
    benchmark::DoNotOptimize(dst.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * state.range(1));
}

void add_combine(const Kernels& kernels, DataType type, int n, bool tree, std::int64_t bytes, Stores stores) {
  const auto name = text("combine/", kernels.name, '/', name_of(type), tree ? "/tree" : "/chain",
                         stores == Stores::streaming ? "/streaming" : "");
  benchmark::RegisterBenchmark(name.c_str(), combine_sources, kernels,
                               tree ? Combination::tree(n) : Combination::chain(n), type, stores)
      ->Args({n, bytes});
}

const bool kAdded = [] {
  for (const Kernels* kernels : available_kernels()) {
    for (const int n : {2, 8, 32}) {
      for (const std::int64_t bytes : {8, 16 << 10, 4 << 20}) {
        add_combine(*kernels, DataType::float32, n, true, bytes, Stores::cached);
      }
      add_combine(*kernels, DataType::float32, n, true, 4 << 20, Stores::streaming);
      add_combine(*kernels, DataType::float32, n, false, 16 << 10, Stores::cached);
      add_combine(*kernels, DataType::bfloat16, n, true, 16 << 10, Stores::cached);
      add_combine(*kernels, DataType::float16, n, true, 16 << 10, Stores::cached);
    }
  }
  return true;
}();

}  // namespace
}  // namespace stretto
