#pragma once

#include <span>
#include <string_view>

#include "stretto/engine/driver.h"
#include "stretto/ordering/options/ordering_options.h"
#include "stretto/train/ordering/ready_order.h"
#include "stretto/train/recipes/options/algorithm_options.h"
#include "stretto/train/recipes/options/core_sets.h"

namespace stretto {

/// How `sync` orders its gradients unless it is said otherwise: the fastest that was measured
/// (docs/lab/ordering_costs.md). A model that sums over the ranks while it computes needs an order, and has
/// kOrderOfModelSums.
inline constexpr std::string_view kDefaultOrdering = "none";
inline constexpr std::string_view kOrderOfModelSums = "topo";  ///< see there

/// The order in which gradients are reduced, by AlgorithmOptions.
struct OrderingChoice {
  OrderingOptions ordering;
  ReadyOrderOptions ready;
};

/// The cores that `sync` gives a rank's threads: those that are given, or that an ordering with scp has by itself; none
/// where neither is. As parse_core_sets().
CoreSets cores_of(const AlgorithmOptions& said, std::span<const int> allowed, int input_threads);

/// Throws UsageError for a value that cannot be used in a job of `ranks`, and for options of an order beside none.
/// `fallback`: the ordering where none is given.
OrderingChoice ordering_choice(const AlgorithmOptions& said, int ranks, std::string_view fallback = kDefaultOrdering);

/// Throws UsageError where a waiting application would leave everything to a helper thread that there is not.
void require_helper(const AlgorithmOptions& said, int ranks, ProgressBy progress_by);

}  // namespace stretto
