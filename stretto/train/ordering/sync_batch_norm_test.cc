#include "stretto/train/ordering/sync_batch_norm.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>

#include <map>
#include <thread>

#include "stretto/base/error.h"
#include "stretto/base/mutex.h"

namespace stretto {
namespace {

using torch::nn::BatchNorm1d;
using torch::nn::BatchNorm2d;
using torch::nn::BatchNormOptions;

// Sums of float64 numbers over ranks that are threads of this process.
class ThreadSum {
 public:
  explicit ThreadSum(int ranks) : ranks_(ranks) {}

  void reduce(const TensorDescription& tensor, std::span<std::byte> data) {
    const MutexLock lock(mutex_);
    Round& round = rounds_[tensor.name];
    auto* numbers = reinterpret_cast<double*>(data.data());
    round.sum.resize(tensor.count);
    for (std::size_t i = 0; i < tensor.count; ++i) round.sum[i] += numbers[i];
    ++round.there;
    changed_.notify_all();
    while (round.there < ranks_) changed_.wait_for(mutex_, std::chrono::seconds(1));
    std::ranges::copy(round.sum, numbers);
  }
  std::size_t num_sums() const { return rounds_.size(); }

 private:
  struct Round {
    std::vector<double> sum;
    int there = 0;
  };
  const int ranks_;
  Mutex mutex_;
  CondVar changed_;
  std::map<std::string, Round> rounds_;
};

struct Outcome {
  at::Tensor output, input_gradient, weight_gradient, bias_gradient, running_mean, running_var;
};

template <class Norm>
Outcome forward_backward(Norm& norm, const at::Tensor& input, const at::Tensor& target) {
  at::Tensor leaf = input.detach().clone().set_requires_grad(true);
  Outcome outcome;
  outcome.output = norm->forward(leaf);
  ((outcome.output - target).pow(2) * outcome.output).sum().backward();
  outcome.input_gradient = leaf.grad();
  if (norm->weight.defined()) outcome.weight_gradient = norm->weight.grad();
  if (norm->bias.defined()) outcome.bias_gradient = norm->bias.grad();
  outcome.running_mean = norm->running_mean;
  outcome.running_var = norm->running_var;
  return outcome;
}

// What each rank gets for its part of the batch; all parameters are those of `like`.
std::vector<Outcome> in_parts(const BatchNormOptions& options, const at::Tensor& weight, const at::Tensor& bias,
                              const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& targets,
                              ThreadSum& sum) {
  std::vector<Outcome> outcomes(inputs.size());
  std::vector<std::thread> ranks;
  for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
    ranks.emplace_back([&, rank] {
      SyncBatchNorm norm(options);
      norm->to(inputs[rank].scalar_type());
      if (weight.defined()) {
        const at::NoGradGuard no_gradients;
        norm->weight.copy_(weight);
        norm->bias.copy_(bias);
      }
      plug_in(*norm, std::make_shared<ModelCollectives>([&](const TensorDescription& tensor,
                                                            std::span<std::byte> data) { sum.reduce(tensor, data); }));
      outcomes[rank] = forward_backward(norm, inputs[rank], targets[rank]);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return outcomes;
}

void expect_close(const at::Tensor& ours, const at::Tensor& theirs, double tolerance, const char* what) {
  ASSERT_EQ(ours.sizes(), theirs.sizes()) << what;
  EXPECT_LT((ours - theirs).abs().max().item<double>(), tolerance * (1 + theirs.abs().max().item<double>())) << what;
}

// Against the whole batch: `parts` are the sizes of the ranks' parts.
template <class Whole>
void compare(const BatchNormOptions& options, const std::vector<std::int64_t>& parts, std::vector<std::int64_t> shape,
             at::ScalarType type, double tolerance) {
  at::manual_seed(5);
  for (const std::int64_t part : parts) shape[0] += part;
  const at::Tensor input = at::randn(shape, type) * 3 + 2, target = at::randn(shape, type);
  Whole whole(options);
  whole->to(type);
  if (options.affine()) {
    const at::NoGradGuard no_gradients;
    whole->weight.copy_(at::randn({shape[1]}));
    whole->bias.copy_(at::randn({shape[1]}));
  }
  const Outcome expected = forward_backward(whole, input, target);

  ThreadSum sum(static_cast<int>(parts.size()));
  const auto outcomes =
      in_parts(options, whole->weight, whole->bias, input.split_with_sizes(parts), target.split_with_sizes(parts), sum);
  EXPECT_EQ(sum.num_sums(), 2u) << "one of each pass";
  std::vector<at::Tensor> outputs, gradients, weights, biases;
  for (const Outcome& outcome : outcomes) {
    outputs.push_back(outcome.output);
    gradients.push_back(outcome.input_gradient);
    if (options.affine()) {
      weights.push_back(outcome.weight_gradient);
      biases.push_back(outcome.bias_gradient);
    }
    if (!options.track_running_stats()) continue;
    expect_close(outcome.running_mean, expected.running_mean, tolerance, "running mean");
    expect_close(outcome.running_var, expected.running_var, tolerance, "running variance");
  }
  expect_close(at::cat(outputs), expected.output, tolerance, "output");
  expect_close(at::cat(gradients), expected.input_gradient, tolerance, "gradient of the input");
  if (!options.affine()) return;
  expect_close(at::stack(weights).sum(0), expected.weight_gradient, tolerance, "gradient of the weight");
  expect_close(at::stack(biases).sum(0), expected.bias_gradient, tolerance, "gradient of the bias");
}

constexpr double kDouble = 1e-12, kFloat = 2e-5;

TEST(SyncBatchNorm, IsThatOfTheWholeBatch) {
  for (const std::vector<std::int64_t>& parts :
       {std::vector<std::int64_t>{4}, {4, 4}, {1, 5, 2}, {3, 0, 1, 2}, {1, 1, 1, 1, 1, 1, 1}}) {
    SCOPED_TRACE(parts.size());
    compare<BatchNorm2d>(BatchNormOptions(3), parts, {0, 3, 4, 5}, at::kDouble, kDouble);
    compare<BatchNorm1d>(BatchNormOptions(6), parts, {0, 6}, at::kDouble, kDouble);
    compare<BatchNorm1d>(BatchNormOptions(2), parts, {0, 2, 9}, at::kDouble, kDouble);
    compare<BatchNorm2d>(BatchNormOptions(3), parts, {0, 3, 4, 5}, at::kFloat, kFloat);
  }
}

TEST(SyncBatchNorm, TakesTheOptionsOfBatchNorm) {
  for (const BatchNormOptions& options :
       {BatchNormOptions(3).affine(false), BatchNormOptions(3).track_running_stats(false), BatchNormOptions(3).eps(0.5),
        BatchNormOptions(3).momentum(0.7), BatchNormOptions(3).momentum(std::nullopt)}) {
    compare<BatchNorm2d>(options, {2, 3}, {0, 3, 2, 2}, at::kDouble, kDouble);
  }
}

TEST(SyncBatchNorm, EvaluatesByTheRunningStatisticsAndSumsNothing) {
  at::manual_seed(3);
  const at::Tensor input = at::randn({5, 4}) + 1;
  BatchNorm1d theirs(4);
  SyncBatchNorm ours(4);
  int sums = 0;
  plug_in(*ours, std::make_shared<ModelCollectives>([&](const TensorDescription&, std::span<std::byte>) { ++sums; }));
  for (int step = 0; step < 3; ++step) {
    theirs->forward(input * step);
    ours->forward(input * step);
  }
  EXPECT_EQ(sums, 3);
  EXPECT_EQ(ours->num_batches_tracked.item<int>(), 3);
  theirs->eval();
  ours->eval();
  expect_close(ours->forward(input), theirs->forward(input), kFloat, "output");
  EXPECT_EQ(sums, 3);
}

TEST(SyncBatchNorm, AnInputThatNeedsNoGradientIsSummedInTheForwardPassAlone) {
  SyncBatchNorm norm(2);
  std::vector<std::string> sums;
  const auto collectives = std::make_shared<ModelCollectives>(
      [&](const TensorDescription& tensor, std::span<std::byte>) { sums.push_back(tensor.name); });
  EXPECT_EQ(plug_in(*norm, collectives), 1);
  EXPECT_EQ(collectives_of(*norm), collectives);
  norm->forward(at::randn({3, 2})).sum().backward();
  EXPECT_EQ(sums.size(), 1u);
  EXPECT_TRUE(norm->weight.grad().defined());
  norm->forward(at::randn({3, 2}).set_requires_grad(true)).sum().backward();
  EXPECT_EQ(sums.size(), 3u);
}

TEST(SyncBatchNorm, SaysWhatItCannotDo) {
  SyncBatchNorm norm(2);
  EXPECT_THROW(norm->forward(at::randn({3, 2})), UsageError) << "nobody sums";
  plug_in(*norm, std::make_shared<ModelCollectives>(sum_of_one_rank));
  EXPECT_THROW(norm->forward(at::randn({3})), UsageError);
  EXPECT_THROW(norm->forward(at::randn({3, 4})), UsageError);
  EXPECT_THROW(norm->forward(at::ones({3, 2}, at::kLong)), UsageError);
  EXPECT_THROW(norm->forward(at::randn({1, 2})), UsageError) << "one number a channel";
}

}  // namespace
}  // namespace stretto
