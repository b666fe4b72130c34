#include "workloads/workload_parts.h"

#include <torch/nn/module.h>

#include "stretto/base/error.h"

namespace stretto {

void draw_parameters(torch::nn::Module& layer, double bound, Random& random) {
  for (const at::Tensor& parameter : layer.parameters()) {
    STRETTO_CHECK(parameter.is_contiguous() && parameter.scalar_type() == at::kFloat, parameter.dim());
    float* values = parameter.data_ptr<float>();
    for (std::int64_t i = 0; i < parameter.numel(); ++i) {
      values[i] = static_cast<float>(bound * (2 * random.uniform() - 1));
    }
  }
}

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
