#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/observe/tensor_times.h"
#include "stretto/ordering/options/ordering_statistics.h"
#include "stretto/ordering/orderer/graph.h"

namespace stretto {

class Driver;

/// The facet of a recipe that reduces gradients one by one, in one order on all ranks (docs/ordering.md). One
/// application thread.
class OrderedGradients {
 public:
  virtual ~OrderedGradients() = default;  ///< with the recipe
  /// In a pass of the model: puts the sum over all ranks in the place of the elements in `data`, and returns 0, or as
  /// Recipe::advance() does; after a timeout the same call again.
  virtual Result<int> sum_in_pass(const TensorDescription& tensor, std::span<std::byte> data, Driver& driver,
                                  TimePoint deadline) = 0;
  /// The cost on this rank of the common order.
  virtual OrderingStatistics statistics() const = 0;
  /// From now on keeps the times of each tensor for take_timeline(). Between two steps.
  virtual void record_timeline() = 0;
  /// The times of this rank's tensors since the last call, by the engine's clock.
  virtual std::vector<TensorTimes> take_timeline() = 0;
};

}  // namespace stretto
