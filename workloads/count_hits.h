#pragma once

#include <ATen/core/Tensor.h>

#include "workloads/hits.h"

namespace stretto {

/// Adds a batch: scores as [sample][class] in float32, labels as [sample] in int64.
void count_hits(Hits& hits, const at::Tensor& scores, const at::Tensor& labels);

}  // namespace stretto
