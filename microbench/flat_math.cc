// How fast models are computed with, by type: numbers a second. `--benchmark_enable_random_interleaving` and some
// repetitions compare the types in one run; STRETTO_KERNELS names the conversions.

#include "stretto/train/replica/flat_math.h"

#include <benchmark/benchmark.h>

#include <cstddef>
#include <string>
#include <vector>

namespace stretto {
namespace {

using Bytes = std::span<std::byte>;
using Function = void (*)(DataType, Bytes, Bytes, Bytes);

struct Named {
  const char* name;
  Function function;
};

constexpr Named kFunctions[] = {
    {"divide", [](DataType t, Bytes a, Bytes b, Bytes) { divide(t, a, b, 3); }},
    {"scale", [](DataType t, Bytes a, Bytes b, Bytes) { scale(t, a, b, 0.5); }},
    {"add_divide", [](DataType t, Bytes a, Bytes b, Bytes) { add_divide(t, a, b, 3); }},
    {"carry", [](DataType t, Bytes a, Bytes b, Bytes c) { carry(t, a, b, 3, c); }},
    {"subtract", [](DataType t, Bytes a, Bytes b, Bytes c) { subtract(t, a, b, c); }},
    {"nesterov_step", [](DataType t, Bytes a, Bytes b, Bytes c) { nesterov_step(t, a, b, c, 3, 0.7, 0.9); }},
    {"add_scaled", [](DataType t, Bytes a, Bytes b, Bytes) { add_scaled(t, a, b, 0.5); }},
    {"sum_of_squares", [](DataType t, Bytes a, Bytes, Bytes) { benchmark::DoNotOptimize(sum_of_squares(t, a)); }},
    {"first_non_finite", [](DataType t, Bytes a, Bytes, Bytes) { benchmark::DoNotOptimize(first_non_finite(t, a)); }},
};

void compute(benchmark::State& state, DataType type, Function function) {
  const auto bytes = static_cast<std::size_t>(state.range(0)) * size_of(type);
  std::vector<std::byte> a(bytes), b(bytes), c(bytes);  // zeros, which stay so
  for (auto _ : state) {
    function(type, a, b, c);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

const bool kAdded = [] {
  for (const Named& named : kFunctions) {
    for (const DataType type : {DataType::float32, DataType::float64, DataType::bfloat16, DataType::float16}) {
      const std::string name = std::string(named.name) + "/" + name_of(type);
      benchmark::RegisterBenchmark(name.c_str(), compute, type, named.function)->Arg(16 << 10)->Arg(1 << 20);
    }
  }
  return true;
}();

}  // namespace
}  // namespace stretto
