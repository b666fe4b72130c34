#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "workloads/dataset.h"

namespace torch::nn {
class Module;
}

namespace stretto {

/// How good a model is on one split.
struct Evaluation {
  double loss = 0;                 ///< mean over all samples
  std::optional<double> accuracy;  ///< share classified correctly; none for regression
  std::optional<double> top5;  ///< share with the class among the five of highest score; with more than five classes
};

/// Hears of each layer of a model before a forward pass reads its parameters.
using BeforeLayer = std::function<void(const torch::nn::Module& layer)>;
/// Does nothing.
inline void no_hook(const torch::nn::Module& /*layer*/) {}

/// A model to train, and the loss of a batch. Float32 on the CPU. Made in each rank, over data that was loaded before
/// the ranks were forked. Not thread-safe.
class Workload {
 public:
  virtual ~Workload() = default;

  const Dataset& data() const { return *data_; }
  const WorkloadInfo& info() const { return data_->info(); }
  std::uint32_t num_train() const { return data_->num_train(); }
  const std::vector<std::uint32_t>& lengths() const { return data_->lengths(); }
  std::uint64_t units(std::span<const std::uint32_t> samples) const { return data_->units(samples); }

  /// A fresh model, a function of `seed` alone: the same bits in every process and with every version of Torch.
  virtual std::shared_ptr<torch::nn::Module> make_model(std::uint64_t seed) const = 0;

  /// The training loss of a batch: a scalar to call backward() on, the mean over its samples.
  /// `before` is called with each layer before its parameters are read.
  /// Requires: `model` comes from make_model() of this workload; at least one sample, all below num_train().
  at::Tensor loss(torch::nn::Module& model, std::span<const std::uint32_t> samples,
                  const BeforeLayer& before = no_hook) const {
    return compute_loss(model, samples, before);
  }

  /// Over a whole split, without gradients. Deterministic for given weights.
  virtual Evaluation evaluate(torch::nn::Module& model, Split split) const = 0;

 protected:
  explicit Workload(std::shared_ptr<const Dataset> data) : data_(std::move(data)) {}

  /// `model` as the type that make_model() has made it; throws UsageError for another workload's.
  template <class Model, class Module>
  Model& own(Module& model) const {
    if (auto* mine = dynamic_cast<Model*>(&model)) return *mine;
    throw UsageError(text("this model is not one that make_model() of workload ", info().name, " has made"));
  }

 private:
  virtual at::Tensor compute_loss(torch::nn::Module& model, std::span<const std::uint32_t> samples,
                                  const BeforeLayer& before) const = 0;

  std::shared_ptr<const Dataset> data_;
};

/// The workload over data that load_dataset() has returned.
std::unique_ptr<Workload> make_workload(std::shared_ptr<const Dataset> data);

}  // namespace stretto
