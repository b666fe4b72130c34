#include "stretto/kernel/kernels.h"

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/base/error.h"

namespace stretto {
namespace {

const Kernels& choose() {
  const auto all = available_kernels();
  const char* wanted = std::getenv("STRETTO_KERNELS");
  if (wanted == nullptr || *wanted == '\0') return *all.back();
  std::string names;
  for (const Kernels* kernels : all) {
    if (std::string_view(kernels->name) == wanted) return *kernels;
    names += text(names.empty() ? "" : ", ", kernels->name);
  }
  throw UsageError(text("STRETTO_KERNELS=", wanted, "; this processor runs ", names));
}

int index_of(DataType type) {
  STRETTO_CHECK(is_half(type), "conversion of ", name_of(type), ", which has no 16 bits");
  return type == DataType::bfloat16 ? 0 : 1;
}

}  // namespace

std::span<const Kernels* const> available_kernels() {
  static const std::vector<const Kernels*> kAll = [] {
    std::vector<const Kernels*> all = special_kernels();
    all.insert(all.begin(), &kPlainKernels);
    return all;
  }();
  return kAll;
}

const Kernels& kernels_in_use() {
  static const Kernels& chosen = choose();
  return chosen;
}

void widen(DataType type, float* dst, const std::byte* src, std::uint64_t count) {
  kernels_in_use().widen[index_of(type)](reinterpret_cast<std::byte*>(dst), src, count);
}

void narrow(DataType type, std::byte* dst, const float* src, std::uint64_t count) {
  kernels_in_use().narrow[index_of(type)](dst, reinterpret_cast<const std::byte*>(src), count);
}

}  // namespace stretto
