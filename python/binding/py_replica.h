#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "python/binding/python_part.h"
#include "stretto/train/replica/bucket_plan.h"
#include "stretto/train/replica/replica.h"

namespace stretto::python {

/// Python's account of a model that is wrapped. The same on every rank.
struct PyModel {
  std::vector<ParameterSpec> parameters;      ///< all of the model's, trained or not
  std::uint64_t bucket_bytes = kBucketBytes;  ///< as TorchReplicaOptions::bucket_bytes
  bool gradients_stay = false;                ///< p.grad lies in memory of the replica's own for ever
  bool wide_gradients = false;                ///< those of parameters of 16 bits are float32
  bool staged = false;                        ///< gradients lie on a device: Python copies them to sets, and takes sums
  std::string model, optimizer, library;      ///< descriptions
  LibraryCode code;                           ///< of the library
};

/// A model and an optimizer that live in Python. Gradients, sums and flat parameters lie in memory of this side, which
/// Python's tensors view; Python is called for what only it can do (PythonPart).
///
/// Where `gradients_stay`, backward passes add to memory of the replica's own, which end_backward() copies to where the
/// algorithm wants it: for small parameters that is faster than to point each p.grad at other memory.
class PyReplica final : public Replica, private LocalBuffers {
 public:
  /// `calls`: Python's part. It must be there wherever a call of this optimizer or of another one of this process
  /// lasts.
  PyReplica(PyModel model, ReplicaObject calls);

  /// The object whose methods are Python's part, while one call into the binding lasts. Lock held at both ends.
  class Calls {
   public:
    Calls(PyReplica& replica, ReplicaObject object) : replica_(replica) { replica_.calls_.enter(object); }
    ~Calls() { replica_.calls_.leave(); }
    Calls(const Calls&) = delete;
    Calls& operator=(const Calls&) = delete;

   private:
    PyReplica& replica_;
  };

  const PythonPart& calls() const { return calls_; }
  const std::vector<Placement>& placements() const { return plan_.placements; }
  /// Of the trained parameters, by number: an index into PyModel::parameters.
  const std::vector<std::size_t>& trained() const { return trained_; }
  /// Memory of a bucket: its parameters, its gradients in memory of the replica's own, or those of a set.
  std::span<std::byte> flat(int bucket) const { return flat_[static_cast<std::size_t>(bucket)].span(); }
  /// Gives the memory of flat() back to the system: what it holds is not wanted, and all zeros from now on.
  void forget_flat() const;
  std::span<std::byte> own(int bucket) const { return own_[static_cast<std::size_t>(bucket)].span(); }
  std::span<std::byte> set(int number, int bucket) const;
  /// One byte a trained parameter, written by Python's collect(): whether it has a gradient.
  std::span<std::byte> used_flags() { return std::as_writable_bytes(std::span(used_)); }
  /// Sets to zero what has been attached, and has Python point p.grad there again.
  void clear();
  /// The next attach() leaves p.grad as it is: what lies there belongs to the step, and end_backward() brings it home.
  void keep_gradients(bool keep) { keep_gradients_ = keep; }
  /// The gradients of the next bucket are complete and lie where p.grad has been pointed at: what is asked to hear of
  /// it does (on_bucket_ready()). In the backward pass, for any number of buckets; end_backward() does it for the rest.
  void hand_over();

  const std::vector<BucketSpec>& buckets() const override { return gradient_buckets_; }
  const std::vector<BucketSpec>& parameter_buckets() const override { return plan_.buckets; }
  void attach(int set, Memory memory) override;
  void attach_own() override;
  void detach() override;
  void on_bucket_ready(std::function<void(int)> ready) override { ready_ = std::move(ready); }
  void end_backward() override;
  int num_trained() const override { return static_cast<int>(trained_.size()); }
  bool used(int parameter) const override { return used_[static_cast<std::size_t>(parameter)] != 0; }
  int bucket_of(int parameter) const override {
    return plan_.placements[trained_[static_cast<std::size_t>(parameter)]].bucket;
  }
  std::optional<std::string> find_non_finite(int bucket) const override;
  void step(ConstMemory sum, std::span<const double> divisors, std::span<const std::int64_t> uses) override;
  void attached_returns(bool yes) override;
  void step() override;
  OptimizerOptions optimizer_options() const override;
  std::optional<SgdRule> sgd_rule() const override;
  void set_lr_factor(double factor) override;
  /// A recipe that reads parameters reads all, the first bucket first: that call shows them where they are on a device.
  std::span<std::byte> parameters(int bucket) override;
  std::vector<std::span<std::byte>> weights() override;
  LocalBuffers* local_buffers() override { return this; }
  std::vector<Buffer> floating_buffers() override;
  std::vector<std::pair<std::size_t, std::size_t>> moments() const override;
  std::vector<std::span<std::int64_t>> counts() override;
  std::optional<std::string> describe_buffers() override;
  void share_buffers(const std::vector<std::string>& of_ranks) override;
  std::string model_description() const override { return model_.model; }
  std::string optimizer_description() const override { return model_.optimizer; }
  std::string optimizer_state() override;
  void set_optimizer_state(const std::string& state) override;
  std::vector<Buffer> optimizer_arrays() override;
  std::string library() const override { return model_.library; }
  LibraryCode library_code() const override { return model_.code; }
  ReplicaChecksum checksum() override;
  std::string save() override;
  void load(const std::string& saved) override;

 private:
  /// Zeros in pages of their own, of which those that are used take memory.
  class Block {
   public:
    explicit Block(std::uint64_t bytes);
    std::span<std::byte> span() const { return {memory_.get(), memory_.get_deleter().bytes}; }

   private:
    struct Free {
      std::size_t bytes = 0;
      void operator()(std::byte* memory) const;
    };
    std::unique_ptr<std::byte[], Free> memory_;
  };
  using Set = std::vector<std::span<std::byte>>;

  static constexpr int kOwn = -1;  // as the number of a set
  void call_attach(int set) const;
  void set_to_zero(const Set& memory) const;
  const Set& attached() const { return attached_ == kOwn ? own_spans_ : sets_[static_cast<std::size_t>(attached_)]; }

  const PyModel model_;
  const BucketPlan plan_;
  std::vector<BucketSpec> gradient_buckets_;
  std::vector<std::size_t> trained_;
  std::vector<Block> flat_, own_;  // a bucket each
  Set own_spans_;
  std::vector<Set> sets_;  // by number; empty: not seen yet
  int attached_ = kOwn;
  bool attached_returns_ = false;
  bool attached_since_ = false;  // since that has been said
  bool finite_ = false;          // Python knows that what is attached is
  int next_bucket_ = 0;          // to be handed over in this step
  bool keep_gradients_ = false;
  std::vector<std::uint8_t> used_;  // of each trained parameter
  std::function<void(int)> ready_;
  PythonPart calls_;
};

}  // namespace stretto::python
