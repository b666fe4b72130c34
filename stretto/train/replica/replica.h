#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "stretto/kernel/bucket.h"
#include "stretto/ordering/orderer/graph.h"

namespace stretto {

/// Hashes that are equal on all replicas of an algorithm that averages gradients. Buffers are not in them: they are
/// local.
struct ReplicaChecksum {
  std::uint64_t parameters = 0;  ///< those that are trained
  std::uint64_t optimizer = 0;   ///< its state: momentum and the like; differs between ranks where models are averaged
  friend bool operator==(const ReplicaChecksum&, const ReplicaChecksum&) = default;  ///< both are equal
};

/// Gradients are averaged in buckets of so many bytes unless it is said otherwise; a larger parameter has its own.
inline constexpr std::uint64_t kBucketBytes = 4 << 20;

/// The options by which an optimizer moves the weights, beside gradients.
struct OptimizerOptions {
  double lr = 0;           ///< of the first group of parameters
  std::uint64_t hash = 0;  ///< of all options of all groups
};

/// Stochastic gradient descent with one set of options for all parameters: v = momentum × v + (g + weight_decay × w),
/// w −= lr × v.
struct SgdRule {
  double lr = 0;                                                     ///< as it is now
  double momentum = 0;                                               ///< the share of the velocity v that stays
  double weight_decay = 0;                                           ///< pulls the weights towards 0
  friend bool operator==(const SgdRule&, const SgdRule&) = default;  ///< all are equal
};

/// The facet of a replica whose forward passes say which parameters they are about to read. The thread that computes.
class ReadsByBucket {
 public:
  virtual ~ReadsByBucket() = default;  ///< with the replica
  /// Called in the forward pass with a bucket before parameters in it are read, and with every bucket before the
  /// backward pass; perhaps again and again. May throw. Null: never called.
  virtual void on_bucket_read(std::function<void(int)> read) = 0;
  /// Called in a pass before that one and Replica::on_bucket_ready() hear of a bucket, with the share of the pass that
  /// lies behind then: the forward pass is a third of it, and in either a bucket's part is that of its bytes. For who
  /// makes passes last longer. Must not throw. Null: never called.
  virtual void on_progress(std::function<void(double)> /*progress*/) {}
};

/// The code by which a library computes here: other code may give other bits.
struct LibraryCode {
  std::string name;  ///< what it has chosen for this processor; empty: it has one for all
  int threads = 1;   ///< among which it splits large sums
};

class GradientsByTensor;  // below
class LocalBuffers;       // below
class ModelCollectives;   // train/ordering/model_collectives.h

/// One rank's copy of a model, with the optimizer that moves it, as algorithms see it: flat, contiguous buckets of
/// parameters, and gradients in memory that the caller owns and that changes from step to step. Knows no Torch;
/// TorchReplica is the one over LibTorch. Not thread-safe; one thread computes.
///
/// A step is: attach() some memory, forward and backward pass, end_backward(); the gradients then lie in that memory.
/// The sum of many such comes back with step().
class Replica {
 public:
  using Memory = std::span<const std::span<std::byte>>;             ///< one span a bucket
  using ConstMemory = std::span<const std::span<const std::byte>>;  ///< one span a bucket

  virtual ~Replica() = default;  ///< after every recipe and Meeting that uses it

  /// The arrays in which gradients lie: what attach() is given, and step() sums of. Fixed. Float32, float64, bfloat16
  /// or float16, a bucket of one type.
  virtual const std::vector<BucketSpec>& buckets() const = 0;
  /// The arrays in which the parameters of the same buckets lie: as many numbers each, perhaps of another type, as
  /// where the gradients of bfloat16 parameters are added up as float32. Fixed. What averages gradients needs buckets()
  /// alone, and what averages models these alone.
  virtual const std::vector<BucketSpec>& parameter_buckets() const { return buckets(); }

  // Gradients.

  /// Points all gradients at `memory`, set to zero. `set` is a stable small number of this memory.
  virtual void attach(int set, Memory memory) = 0;
  /// The same with memory of the replica's own.
  virtual void attach_own() = 0;
  /// All memory that has been attached but the replica's own is about to be gone: gradients lie in that from now on, as
  /// they are.
  virtual void detach() {}
  /// Called in the backward pass with 0, 1, 2, … as soon as all gradients of a bucket and of those before it lie in
  /// the attached memory; end_backward() calls it for the rest. Null: never called. Must not throw.
  virtual void on_bucket_ready(std::function<void(int)> ready) = 0;
  /// After the backward pass: makes sure that all gradients lie in the attached memory, zero where there is none.
  /// Throws UsageError, which names the parameter, where the model or what the optimizer trains has changed since
  /// construction.
  virtual void end_backward() = 0;
  /// Trained parameters, which have numbers from 0 on.
  virtual int num_trained() const = 0;
  /// Whether the backward pass that has ended gave a parameter a gradient.
  virtual bool used(int parameter) const = 0;
  /// The bucket that a trained parameter lies in.
  virtual int bucket_of(int parameter) const = 0;
  /// The first gradient of `bucket` that is infinite or NaN, as "lstm.weight_ih_l0 (element 12 is nan)".
  virtual std::optional<std::string> find_non_finite(int bucket) const = 0;

  // Weights.

  /// Moves the weights by the gradients sum / divisor, of each bucket. `sum` is read inside the call only. `uses`: of
  /// each trained parameter how many gradients are in the sum; one without any is not moved, neither by momentum nor by
  /// weight decay. Empty: all have some. Nor is a parameter moved in whose bucket there is no sum (an empty span).
  virtual void step(ConstMemory sum, std::span<const double> divisors, std::span<const std::int64_t> uses) = 0;
  /// Whether attached memory is free again when step() is called with a sum, as where each round is that of all ranks:
  /// averages may be worked out there, and need no memory of the replica's own. What has been attached before the call
  /// is not. Off at first.
  virtual void attached_returns(bool /*yes*/) {}
  /// Moves the weights by the attached gradients, but not those that have got none.
  virtual void step() = 0;
  /// As they are now.
  virtual OptimizerOptions optimizer_options() const = 0;
  /// The rule by which the optimizer moves the weights, so that it can be followed elsewhere. None: it is another one,
  /// or has options that SgdRule does not know.
  virtual std::optional<SgdRule> sgd_rule() const { return std::nullopt; }
  /// Multiplies the learning rate there was at construction.
  virtual void set_lr_factor(double factor) = 0;

  /// The parameters of a bucket, as parameter_buckets() says.
  virtual std::span<std::byte> parameters(int bucket) = 0;
  /// Everything to broadcast: parameters, trained or not, and buffers.
  virtual std::vector<std::span<std::byte>> weights() = 0;
  /// Floating point numbers that ranks average.
  struct Buffer {
    DataType type;                ///< of an element
    std::span<std::byte> memory;  ///< the replica's own
  };

  // Identity and state.

  /// Names, shapes and types of everything in weights(), a line each. Equal on ranks that train the same model.
  virtual std::string model_description() const = 0;
  /// Type and options of the optimizer, as its program has made it. Equal on ranks that train alike.
  virtual std::string optimizer_description() const = 0;
  /// The state of the optimizer (momentum and the like), for another rank to take over; empty before the first step.
  virtual std::string optimizer_state() = 0;
  /// Takes over what optimizer_state() of a replica of the same model and optimizer gave.
  virtual void set_optimizer_state(const std::string& state) = 0;
  /// The arrays of floating point numbers in that state (momentum, Adam's moments), in the order of the parameters;
  /// none before the first step. Valid until the next step.
  virtual std::vector<Buffer> optimizer_arrays() = 0;
  /// The library that computes, with its version: "torch 2.13.0".
  virtual std::string library() const = 0;
  /// How it computes on this host.
  virtual LibraryCode library_code() const { return {}; }
  /// Of the trained parameters and the optimizer's state as they are now.
  virtual ReplicaChecksum checksum() = 0;
  /// Weights, buffers and the optimizer's state, as the content of a file. Throws Failure.
  virtual std::string save() = 0;
  /// Takes over what save() of a replica of the same model returned. Throws Failure (Errc::bad_input).
  virtual void load(const std::string& saved) = 0;

  /// Facets that only some replicas have; null: this one has it not. They live as long as the replica.
  virtual GradientsByTensor* gradients_by_tensor() { return nullptr; }
  virtual ReadsByBucket* reads_by_bucket() { return nullptr; }  ///< where passes say what they are about to read
  virtual LocalBuffers* local_buffers() { return nullptr; }     ///< where the model has buffers
  /// The sums over all ranks that the model needs in its passes, for who makes them.
  virtual ModelCollectives* model_collectives() { return nullptr; }
};

/// The facet of a replica whose model has buffers, e.g. the running statistics of BatchNorm: local to each rank until a
/// caller averages them here. The thread that computes.
class LocalBuffers {
 public:
  virtual ~LocalBuffers() = default;  ///< with the replica
  /// All of floating point numbers, in the order of the model.
  virtual std::vector<Replica::Buffer> floating_buffers() = 0;
  /// Which of them are a mean and the variance about it (BatchNorm): indices into floating_buffers().
  virtual std::vector<std::pair<std::size_t, std::size_t>> moments() const { return {}; }
  /// Buffers that count what the moments were taken over.
  virtual std::vector<std::span<std::int64_t>> counts() { return {}; }
  /// For a model whose buffers may change, on some ranks alone, too: a line for each that could be in these three, with
  /// all that has to be the same where it is averaged. None: they never change. On every rank or on none.
  virtual std::optional<std::string> describe_buffers() { return std::nullopt; }
  /// Takes the lines that describe_buffers() has just given, by rank; empty: the same on all. From now on the three
  /// have what is on every rank alone.
  virtual void share_buffers(const std::vector<std::string>& /*of_ranks*/) {}
};

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
