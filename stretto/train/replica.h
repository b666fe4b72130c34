#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stretto/collective/bucket.h"
#include "stretto/train/bucket_plan.h"

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace stretto {

struct ReplicaOptions {
  std::uint64_t bucket_bytes = 4 << 20;  ///< larger: fewer, better filled messages; smaller: more overlap with backward
};

/// One rank's copy of a model, with the optimizer that moves it. Parameters lie in flat, contiguous buckets, of which
/// the model's tensors are views, and so do gradients, in memory that someone else owns and that changes from step to
/// step. Any torch::optim::Optimizer that needs no closure. Not thread-safe; one thread computes.
///
/// A step is: attach() some memory, forward and backward pass, end_backward(); the gradients then lie in that memory,
/// whatever zero_grad() or autograd did to the tensors' .grad. The sum of many such comes back with step().
class Replica {
 public:
  using Memory = std::span<const std::span<std::byte>>;             ///< one span a bucket
  using ConstMemory = std::span<const std::span<const std::byte>>;  ///< one span a bucket

  /// Moves the parameters into flat memory; their values stay. What the optimizer holds is reduced, the rest of the
  /// model only broadcast and compared. Throws UsageError for a model that cannot be averaged: parameters that are
  /// not float32 or float64 on the CPU, or nothing to train.
  Replica(std::shared_ptr<torch::nn::Module> model, std::shared_ptr<torch::optim::Optimizer> optimizer,
          ReplicaOptions options = {});
  ~Replica();
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  torch::nn::Module& model();
  torch::optim::Optimizer& optimizer();
  const std::vector<BucketSpec>& buckets() const;
  /// Bytes of all trained parameters.
  std::uint64_t parameter_bytes() const;

  // Gradients.

  /// Points all gradients at `memory`, set to zero. `set` is a stable small number of this memory: its views are made
  /// once and kept.
  void attach(int set, Memory memory);
  /// The same with memory of the replica's own.
  void attach_own();
  /// Called in the backward pass with 0, 1, 2, … as soon as all gradients of a bucket and of those before it lie in
  /// the attached memory; end_backward() calls it for the rest. Null: never called. Must not throw.
  void on_bucket_ready(std::function<void(int)> ready);
  /// After the backward pass, once or several times added up: makes sure that all gradients lie in the attached
  /// memory, zero where a parameter has none. Throws UsageError after a second backward pass that came when buckets
  /// were already handed over.
  void end_backward();
  /// The first gradient of `bucket` that is infinite or NaN, as "lstm.weight_ih_l0 (element 12 is nan)".
  std::optional<std::string> find_non_finite(int bucket) const;

  // Weights.

  /// Moves the weights by the gradient sum / divisor. `sum` is read inside the call only.
  void step(ConstMemory sum, double divisor);
  /// Moves the weights by the attached gradients.
  void step();
  /// Called inside step() when the averaged gradients are in place, before the optimizer moves anything.
  void on_step(std::function<void()> before);
  /// Multiplies the learning rate that each group of the optimizer had at construction.
  void set_lr_factor(double factor);

  /// The parameters of a bucket.
  std::span<std::byte> parameters(int bucket);
  /// All there is to broadcast: parameters, trained or not, and buffers.
  std::vector<std::span<std::byte>> weights();
  /// Buffers of floating point numbers, e.g. the running statistics of BatchNorm: local to each rank until somebody
  /// averages them here.
  struct Buffer {
    DataType type;
    std::span<std::byte> memory;
  };
  std::vector<Buffer> floating_buffers();
  /// Names, shapes and types of everything in weights(), a line each.
  const std::string& description() const;

  class Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace stretto
