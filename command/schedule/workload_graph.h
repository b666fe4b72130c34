#pragma once

#include <cstdint>
#include <memory>

#include "stretto/ordering/graph.h"
#include "workloads/dataset.h"

namespace stretto::command {

/// The executed graph of a workload's `step`-th training step, from 1, on one rank, over batches of its first `batch`
/// samples. The steps before it are executed, too, but move no weights.
ExecutedGraph executed_graph(const std::shared_ptr<const Dataset>& data, int batch, std::uint64_t seed, int step);

}  // namespace stretto::command
