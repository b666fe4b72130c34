#pragma once

#include <memory>

#include "stretto/train/replica.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace stretto {

struct TorchReplicaOptions {
  std::uint64_t bucket_bytes = 4 << 20;  ///< larger: fewer, better filled messages; smaller: more overlap with backward
};

/// A LibTorch module and any torch::optim::Optimizer that needs no closure. The model's tensors become views of the
/// flat buckets and stay the objects they were. Gradients come home to the attached memory whatever zero_grad() or
/// autograd did to the tensors' .grad.
class TorchReplica final : public Replica {
 public:
  /// Moves the parameters into flat memory; their values stay. What the optimizer holds is reduced, the rest of the
  /// model only broadcast and compared. Throws UsageError for a model that cannot be averaged: parameters that are
  /// not float32 or float64 on the CPU, or nothing to train.
  TorchReplica(std::shared_ptr<torch::nn::Module> model, std::shared_ptr<torch::optim::Optimizer> optimizer,
               TorchReplicaOptions options = {});
  ~TorchReplica() override;
  TorchReplica(const TorchReplica&) = delete;
  TorchReplica& operator=(const TorchReplica&) = delete;

  torch::nn::Module& model();
  torch::optim::Optimizer& optimizer() const;
  /// Called inside step() when the averaged gradients are in place, before the optimizer moves anything: the place for
  /// clipping them.
  void on_step(std::function<void()> before);

  const std::vector<BucketSpec>& buckets() const override;
  /// Views of `memory` are made once a set and kept.
  void attach(int set, Memory memory) override;
  void attach_own() override;
  void on_bucket_ready(std::function<void(int)> ready) override;
  /// After one backward pass or several, added up. Throws UsageError after a second one that came when buckets were
  /// already handed over.
  void end_backward() override;
  std::optional<std::string> find_non_finite(int bucket) const override;
  void step(ConstMemory sum, double divisor) override;
  void step() override;
  void set_lr_factor(double factor) override;
  std::span<std::byte> parameters(int bucket) override;
  std::vector<std::span<std::byte>> weights() override;
  std::vector<Buffer> floating_buffers() override;
  std::string model_description() const override;
  std::string optimizer_description() const override;
  std::string library() const override;
  ReplicaChecksum checksum() override;
  void save(const std::string& path) override;
  void load(const std::string& path) override;

  class Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace stretto
