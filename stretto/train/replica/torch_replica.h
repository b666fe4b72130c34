#pragma once

#include <memory>

#include "stretto/train/replica/replica.h"

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

/// How a TorchReplica cuts and clips gradients. The same on every rank.
struct TorchReplicaOptions {
  std::uint64_t bucket_bytes =
      kBucketBytes;  ///< larger: fewer, better filled messages; smaller: more overlap with backward
  /// The gradient that moves the weights is scaled down to this 2-norm, over all trained parameters, where it is
  /// longer; 0: never. As torch::nn::utils::clip_grad_norm_(), with the same bits on every rank.
  double clip_norm = 0;
  bool by_layer = false;         ///< no bucket holds parameters of two layers
  bool announces_reads = false;  ///< about_to_read() is called for each layer, and then for the model, in every pass
};

/// A LibTorch module and any torch::optim::Optimizer that needs no closure. The model's tensors become views of the
/// flat buckets and stay the objects they were. Gradients end up in the attached memory, also where zero_grad() or
/// autograd has replaced the tensors' .grad.
class TorchReplica final : public Replica, public GradientsByTensor, public ReadsByBucket, public LocalBuffers {
 public:
  /// Moves the parameters into flat memory; their values stay. Parameters that the optimizer holds are reduced; the
  /// rest of the model is only broadcast and compared. Throws UsageError for a model that cannot be averaged:
  /// parameters that are not float32, float64, bfloat16 or float16 on the CPU, or nothing to train; and for an
  /// optimizer that needs a closure (LBFGS).
  ///
  /// Gradients lie in the parameter's type, and are added up in it. Those of float16 parameters are soon too small for
  /// it: multiply the loss by a constant, and divide the gradients by it in on_step(). A scale that changes by itself
  /// (GradScaler) has no place here, since a gradient that is not finite stops the job.
  ///
  /// From now on parameters stay where they are: neither model.to() nor torch::load() into the model, no parameter
  /// unfrozen, no group added. The next end_backward() names the parameter for which that was done.
  TorchReplica(std::shared_ptr<torch::nn::Module> model, std::shared_ptr<torch::optim::Optimizer> optimizer,
               TorchReplicaOptions options = {});
  ~TorchReplica() override;  ///< the model keeps its parameters, as views of memory that they own together
  TorchReplica(const TorchReplica&) = delete;
  TorchReplica& operator=(const TorchReplica&) = delete;

  torch::nn::Module& model();                  ///< as given
  torch::optim::Optimizer& optimizer() const;  ///< as given; its step() is step()'s to call
  /// Called inside step() when the averaged gradients are in place, and clipped, before the optimizer moves anything.
  void on_step(std::function<void()> before);
  /// Until the next attach(), or accumulate(false): backward passes only add up, and no bucket is ready.
  void accumulate(bool more);
  /// A forward pass is about to read the parameters of `layer`, or of layers in it. Waits for them where they are on
  /// their way. Once for the whole model between forward and backward pass.
  void about_to_read(const torch::nn::Module& layer);
  /// loss.backward(), which may as well be called instead, but while graphs are recorded: then the graph behind `loss`
  /// is read first. Of several passes in one step it is that of the last.
  void backward(const at::Tensor& loss);
  /// After end_backward(): whether somebody wrote to a gradient after the backward pass that computed it.
  bool gradients_changed() const;

  const std::vector<BucketSpec>& buckets() const override;
  /// Views of `memory` are made once a set and kept.
  void attach(int set, Memory memory) override;
  void attach_own() override;
  void detach() override;
  void on_bucket_ready(std::function<void(int)> ready) override;
  GradientsByTensor* gradients_by_tensor() override { return this; }
  std::span<const TrainedTensor> trained_tensors() const override;
  void on_gradient_ready(std::function<void(int parameter)> ready, bool taken = false) override;
  void record_graphs(bool on) override;
  std::optional<ExecutedGraph> take_graph() override;
  /// By what the modules of the model sum (plug_in()), as it was at construction.
  ModelCollectives* model_collectives() override;
  /// Null unless TorchReplicaOptions::announces_reads.
  ReadsByBucket* reads_by_bucket() override;
  void on_bucket_read(std::function<void(int)> read) override;
  void on_progress(std::function<void(double)> progress) override;
  /// After one backward pass or several, added up. Throws UsageError after a second one that came when gradients were
  /// already handed over: accumulate() keeps them back.
  void end_backward() override;
  std::optional<std::string> find_non_finite(int bucket) const override;
  int num_trained() const override;
  bool used(int parameter) const override;
  int bucket_of(int parameter) const override;
  void step(ConstMemory sum, std::span<const double> divisors, std::span<const std::int64_t> uses) override;
  void step() override;
  OptimizerOptions optimizer_options() const override;
  std::optional<SgdRule> sgd_rule() const override;
  void set_lr_factor(double factor) override;
  std::span<std::byte> parameters(int bucket) override;
  std::vector<std::span<std::byte>> weights() override;
  LocalBuffers* local_buffers() override { return this; }
  std::vector<Buffer> floating_buffers() override;
  std::vector<std::pair<std::size_t, std::size_t>> moments() const override;
  std::vector<std::span<std::int64_t>> counts() override;
  std::string model_description() const override;
  std::string optimizer_description() const override;
  std::string optimizer_state() override;
  void set_optimizer_state(const std::string& state) override;
  std::vector<Buffer> optimizer_arrays() override;
  std::string library() const override;
  LibraryCode library_code() const override;
  ReplicaChecksum checksum() override;
  std::string save() override;
  void load(const std::string& saved) override;

  class Impl;  ///< sees LibTorch

 private:
  /// All trained parameters, as the model holds them.
  std::uint64_t hash_of_parameters() const;

  std::unique_ptr<Impl> impl_;
};

}  // namespace stretto
