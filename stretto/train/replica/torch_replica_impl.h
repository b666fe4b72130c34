#pragma once

#include <ATen/Tensor.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include "stretto/train/ordering/graph_recorder.h"
#include "stretto/train/replica/bucket_plan.h"
#include "stretto/train/replica/torch_replica.h"

namespace stretto {

/// The type of its numbers; none where replicas cannot have it.
std::optional<DataType> data_type(const at::Tensor& tensor);
at::ScalarType scalar_type(DataType type);

/// The parts of a TorchReplica.
class TorchReplica::Impl {
 public:
  struct Parameter {
    std::string name;
    at::Tensor tensor;
    Placement place;
    const void* address = nullptr;  // of a trained one
  };
  Impl(std::shared_ptr<torch::nn::Module> model, std::shared_ptr<torch::optim::Optimizer> optimizer,
       const TorchReplicaOptions& options);
  ~Impl();

  struct GradientSet {
    std::vector<std::span<std::byte>> memory;
    std::vector<at::Tensor> tensors;  // one a trained parameter
  };
  GradientSet make_set(Memory memory) const;
  void point_at(const GradientSet& set);
  void begin_pass(const GradientSet& set);
  void collect(int bucket);
  void bring_home(std::size_t parameter);
  void hand_over_gradient(std::size_t parameter);
  void hand_over(int bucket);
  void gradient_ready(std::size_t parameter);
  void clip();
  void add_buffers();
  void add_hooks();
  void check_unchanged() const;

  // Fixed after construction.
  std::shared_ptr<torch::nn::Module> model_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  std::vector<Parameter> trained_;   // by bucket, then by offset
  std::vector<at::Tensor> others_;   // untrained parameters and buffers, contiguous
  std::vector<at::Tensor> buffers_;  // those of them that are buffers of floating point numbers
  std::vector<std::pair<std::size_t, std::size_t>> moments_;  // mean and variance among them
  std::vector<at::Tensor> counts_;                            // buffers that count batches
  std::vector<Parameter> frozen_;                             // held by the optimizer, and not trained
  std::vector<const void*> held_;                             // by the optimizer, in order
  std::vector<BucketSpec> buckets_;
  std::vector<TrainedTensor> tensors_;             // of trained_
  std::shared_ptr<ModelCollectives> collectives_;  // of the model's modules; null: there are none
  std::vector<at::Tensor> flat_;                   // the parameters of each bucket
  std::vector<std::size_t> first_in_bucket_;       // index into trained_; one more than there are buckets
  std::vector<double> initial_lr_;                 // of each group
  double clip_norm_ = 0;
  bool announces_reads_ = false;
  std::string description_;
  /// Of the optimizer as the program has made it: a checkpoint, or schedulers, may change its options since.
  std::string describe_optimizer() const;
  std::string optimizer_description_;

  std::vector<at::Tensor> own_;  // gradients of each bucket, in memory of our own
  GradientSet own_set_;
  std::vector<GradientSet> sets_;
  const GradientSet* attached_ = nullptr;
  std::function<void()> before_step_;
  std::function<void(int)> read_;
  std::function<void(double)> progress_;
  double bytes_up_to(int bucket) const;  // of all of them: the share of those before, and of this one

  std::unique_ptr<const GraphRecorder> recorder_;  // null: nothing is recorded
  std::optional<ExecutedGraph> graph_;

  // The backward pass under way.
  std::function<void(int)> ready_;
  std::function<void(int)> gradient_ready_;
  bool taken_ = false;                 // what gradient_ready_ has heard of is not this replica's until the next pass
  std::vector<bool> handed_over_;      // of each trained parameter: gradient_ready_ has heard of it
  std::vector<bool> there_;            // of each trained parameter: its gradient has come, or is no zero
  std::vector<bool> complete_;         // it has come in the last pass, after which it is handed over
  std::vector<std::uint64_t> sample_;  // of its numbers, when it came
  std::vector<std::size_t> missing_;   // gradients of each bucket that are not complete
  int next_bucket_ = 0;                // handed over next
  bool passed_twice_ = false;
  bool accumulating_ = false;  // more passes come
  bool changed_ = false;       // a gradient, after it came

  using Accumulator = decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));
  std::vector<std::pair<Accumulator, std::uintptr_t>> hooks_;
};

}  // namespace stretto
