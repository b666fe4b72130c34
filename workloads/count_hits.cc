#include "workloads/count_hits.h"

namespace stretto {
namespace {

template <class T>
std::span<const T> numbers(const at::Tensor& contiguous) {
  return {contiguous.const_data_ptr<T>(), static_cast<std::size_t>(contiguous.numel())};
}

}  // namespace

void count_hits(Hits& hits, const at::Tensor& scores, const at::Tensor& labels) {
  const at::Tensor in_order = scores.contiguous();
  hits.add(numbers<float>(in_order), numbers<std::int64_t>(labels));
}

}  // namespace stretto
