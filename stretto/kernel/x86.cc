#include <cpuid.h>

#include "stretto/kernel/kernels.h"

namespace stretto {
namespace {

bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

}  // namespace

std::vector<const Kernels*> special_kernels() {
  std::vector<const Kernels*> out;
  if (!__builtin_cpu_supports("avx2") || !has_f16c()) return out;
  out.push_back(&kAvx2Kernels);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq")) {
    out.push_back(&kAvx512Kernels);
  }
  return out;
}

}  // namespace stretto
