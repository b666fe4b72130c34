#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "stretto/kernel/bucket.h"
#include "stretto/ordering/orderer/graph.h"

namespace stretto {

/// A trained parameter, for who reduces its gradient by itself.
struct TrainedTensor {
  std::string name;                   ///< in the model
  DataType type = DataType::float32;  ///< of its gradient
  std::uint64_t count = 0;            ///< elements
  int bucket = 0;                     ///< of Replica::buckets(): where its gradient lies
  std::uint64_t offset = 0;           ///< elements of that bucket before it
};

/// The facet of a replica that hands over each gradient by itself. The thread that computes.
class GradientsByTensor {
 public:
  virtual ~GradientsByTensor() = default;  ///< with the replica
  /// The trained parameters, by number. Fixed.
  virtual std::span<const TrainedTensor> trained_tensors() const = 0;
  /// Called in the backward pass with each of these as soon as its gradient lies in the attached memory, in the order
  /// in which gradients are computed; by Replica::end_backward() for a gradient that somebody has added by hand. Never
  /// for a parameter that has got none. Beside Replica::on_bucket_ready(). Null: never called. Must not throw. `taken`:
  /// from that call until the next attach() the gradient's memory is the caller's, and sums may already lie in it: the
  /// replica leaves it alone.
  virtual void on_gradient_ready(std::function<void(int parameter)> ready, bool taken = false) = 0;
  /// From now on each backward pass leaves the graph that its step has executed, for take_graph(), in which gradients
  /// have the names of trained_tensors(). Off at first, and then nothing is recorded.
  virtual void record_graphs(bool on) = 0;
  /// The graph of the last backward pass; none: it has been taken, or nothing was recorded.
  virtual std::optional<ExecutedGraph> take_graph() = 0;
};

}  // namespace stretto
