#include "workloads/workload.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <gmock/gmock.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <thread>
#include <vector>

#include "stretto/base/random.h"
#include "workloads/digits_data.h"
#include "workloads/hyperplane_data.h"
#include "workloads/sequence_data.h"

namespace stretto {
namespace {

class OneThread : public testing::Environment {
  void SetUp() override { at::set_num_threads(1); }
};
const auto* const kOneThread = testing::AddGlobalTestEnvironment(new OneThread);

// A workload where its data is there; 512 points of the hyperplane.
std::unique_ptr<Workload> load(std::string_view name) {
  DatasetOptions options;
  options.hyperplane_points = 512;
  auto data = load_dataset(name, options);
  if (data) return make_workload(*data);
  [&] { GTEST_SKIP() << "NOT TESTED on real data: " << data.error().message; }();
  return nullptr;
}

// Plain SGD with momentum, written out so that only models and losses are tested.
class Sgd {
 public:
  Sgd(torch::nn::Module& model, double lr, double momentum) : lr_(lr), momentum_(momentum) {
    for (const at::Tensor& parameter : model.parameters()) {
      parameters_.push_back(parameter);
      velocity_.push_back(parameter.detach().clone().zero_());
    }
  }

  void step(const at::Tensor& loss) {
    for (at::Tensor& parameter : parameters_) parameter.mutable_grad() = at::Tensor();
    loss.backward();
    const at::NoGradGuard no_gradients;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (!parameters_[i].grad().defined()) continue;  // unused in this step
      velocity_[i].mul_(momentum_).add_(parameters_[i].grad());
      parameters_[i].sub_(velocity_[i], lr_);
    }
  }

 private:
  const double lr_;
  const double momentum_;
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> velocity_;
};

// Batches of samples of about the same length, in an order drawn from `random`.
std::vector<std::vector<std::uint32_t>> draw_batches(const Workload& workload, std::size_t batch, Random& random) {
  std::vector<std::uint32_t> order(workload.num_train());
  std::iota(order.begin(), order.end(), 0U);
  const auto shuffle = [&](auto& items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random.below(i)]);
  };
  shuffle(order);
  if (workload.info().bucketed) std::ranges::stable_sort(order, {}, [&](auto i) { return workload.lengths()[i]; });
  std::vector<std::vector<std::uint32_t>> batches;
  for (std::size_t start = 0; start < order.size(); start += batch) {
    const auto end = std::min(order.size(), start + batch);
    batches.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(start),
                         order.begin() + static_cast<std::ptrdiff_t>(end));
  }
  shuffle(batches);
  return batches;
}

// `epochs` passes with the workload's defaults, the batches of eight ranks as one.
void train(const Workload& workload, torch::nn::Module& model, std::uint64_t epochs) {
  const WorkloadInfo& info = workload.info();
  Sgd sgd(model, info.lr, info.momentum);
  Random random(17);
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    for (const auto& batch : draw_batches(workload, 8 * static_cast<std::size_t>(info.batch), random)) {
      sgd.step(workload.loss(model, batch));
    }
  }
}

std::int64_t num_parameters(const torch::nn::Module& model) {
  std::int64_t count = 0;
  for (const at::Tensor& parameter : model.parameters()) count += parameter.numel();
  return count;
}

std::vector<float> flat(const torch::nn::Module& model) {
  std::vector<float> out;
  for (const at::Tensor& parameter : model.parameters()) {
    const at::Tensor values = parameter.contiguous();
    out.insert(out.end(), values.const_data_ptr<float>(), values.const_data_ptr<float>() + values.numel());
  }
  return out;
}

std::vector<std::uint32_t> first_samples(std::uint32_t count) {
  std::vector<std::uint32_t> out(count);
  std::iota(out.begin(), out.end(), 0U);
  return out;
}

class AnyWorkload : public testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override { workload_ = load(GetParam()); }
  std::unique_ptr<Workload> workload_;
};

INSTANTIATE_TEST_SUITE_P(Workloads, AnyWorkload,
                         testing::Values("branches", "digits", "digits-conv", "digits-wide", "hyperplane", "plaid",
                                         "resnet-small", "vowels"),
                         [](const auto& info) {
                           std::string name(info.param);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST_P(AnyWorkload, ModelIsAFunctionOfTheSeed) {
  const auto model = workload_->make_model(5), again = workload_->make_model(5), other = workload_->make_model(6);
  EXPECT_EQ(flat(*model), flat(*again));
  EXPECT_NE(flat(*model), flat(*other));
  for (const auto& item : model->named_parameters()) {
    EXPECT_TRUE(item.value().requires_grad());
    if (item.key().ends_with("norm.bias")) continue;  // begins at 0
    EXPECT_GT(item.value().abs().max().item<float>(), 0) << item.key();
  }
}

TEST_P(AnyWorkload, HasAsManyParametersAsItSays) {
  const std::map<std::string_view, std::int64_t> expected{
      {"branches", 4940},   {"digits", 4810}, {"digits-conv", 13706},  {"digits-wide", 324490},
      {"hyperplane", 8193}, {"plaid", 22987}, {"resnet-small", 14362}, {"vowels", 20553}};
  EXPECT_EQ(num_parameters(*workload_->make_model(1)), expected.at(GetParam()));
}

TEST_P(AnyWorkload, GradientsAreFiniteAndRepeatToTheBit) {
  const auto model = workload_->make_model(1), twin = workload_->make_model(1);
  const std::vector<std::uint32_t> batch = first_samples(7);
  for (torch::nn::Module* m : {model.get(), twin.get()}) workload_->loss(*m, batch).backward();
  for (std::size_t i = 0; i < model->parameters().size(); ++i) {
    const at::Tensor gradient = model->parameters()[i].grad();
    ASSERT_EQ(gradient.defined(), twin->parameters()[i].grad().defined());
    if (!gradient.defined()) continue;  // unused in this step
    EXPECT_TRUE(gradient.isfinite().all().item<bool>());
    EXPECT_TRUE(gradient.equal(twin->parameters()[i].grad()));
  }
}

TEST_P(AnyWorkload, LossOfABatchIsTheMeanOverItsSamples) {
  const auto model = workload_->make_model(2);
  model->eval();  // in training a batch may be normalized by itself
  const at::NoGradGuard no_gradients;
  const std::vector<std::uint32_t> batch = first_samples(9);
  double sum = 0;
  for (const std::uint32_t sample : batch) sum += workload_->loss(*model, std::span(&sample, 1)).item<double>();
  const double together = workload_->loss(*model, batch).item<double>();
  EXPECT_NEAR(together, sum / 9, 1e-5 * together);
}

TEST_P(AnyWorkload, EvaluationIsTheMeanOverTheSplit) {
  const auto model = workload_->make_model(3);
  const std::vector<std::uint32_t> all = first_samples(workload_->num_train());
  const Evaluation evaluation = workload_->evaluate(*model, Split::train);
  EXPECT_TRUE(model->is_training()) << "as before";
  model->eval();
  const double loss = workload_->loss(*model, all).item<double>();
  EXPECT_NEAR(evaluation.loss, loss, 1e-4 * loss);
  EXPECT_EQ(evaluation.accuracy.has_value(), workload_->info().classifies);
  EXPECT_EQ(evaluation.top5.has_value(), workload_->info().classifies) << "all have more than five classes";
  EXPECT_EQ(workload_->evaluate(*model, Split::test).loss, workload_->evaluate(*model, Split::test).loss);
}

TEST_P(AnyWorkload, LossFallsWithinAFewSteps) {
  const auto model = workload_->make_model(1);
  const double before = workload_->evaluate(*model, Split::train).loss;
  train(*workload_, *model, 3);
  EXPECT_LT(workload_->evaluate(*model, Split::train).loss, 0.9 * before);
}

TEST_P(AnyWorkload, ParametersMayBecomeViewsOfAFlatBuffer) {
  const auto model = workload_->make_model(4), plain = workload_->make_model(4);
  const std::vector<std::uint32_t> batch = first_samples(5);
  std::vector<at::Tensor> pieces;
  for (const at::Tensor& parameter : model->parameters()) pieces.push_back(parameter.detach().flatten());
  const at::Tensor buffer = at::cat(pieces);
  std::int64_t start = 0;
  for (at::Tensor& parameter : model->parameters()) {
    parameter.set_data(buffer.narrow(0, start, parameter.numel()).view(parameter.sizes()));
    start += parameter.numel();
  }
  EXPECT_EQ(workload_->loss(*model, batch).item<double>(), workload_->loss(*plain, batch).item<double>());
  buffer.zero_();
  EXPECT_NE(workload_->loss(*model, batch).item<double>(), workload_->loss(*plain, batch).item<double>())
      << "the model does not compute with the buffer";
}

TEST_P(AnyWorkload, SaysBeforeEachLayerThatItReadsIt) {
  const auto model = workload_->make_model(1), late = workload_->make_model(1);
  const at::NoGradGuard no_gradients;
  for (at::Tensor& parameter : late->parameters()) parameter.fill_(std::nan(""));
  const auto bring = [&](const torch::nn::Module& layer) {
    const auto theirs = model->parameters(), ours = late->parameters();
    for (at::Tensor& parameter : layer.parameters()) {
      const auto at = std::ranges::find_if(ours, [&](const at::Tensor& our) { return our.is_same(parameter); });
      parameter.copy_(theirs[static_cast<std::size_t>(at - ours.begin())]);
    }
  };
  const auto batch = first_samples(8);
  EXPECT_EQ(workload_->loss(*late, batch, bring).item<double>(), workload_->loss(*model, batch).item<double>());
}

TEST_P(AnyWorkload, RefusesTheModelOfAnotherWorkload) {
  const auto stranger = load(GetParam() == "hyperplane" ? "digits" : "hyperplane");
  if (!stranger) return;
  const auto model = stranger->make_model(1);
  EXPECT_THROW((void)workload_->loss(*model, first_samples(1)), UsageError);
  EXPECT_THROW((void)workload_->evaluate(*model, Split::test), UsageError);
}

TEST(HyperplaneWorkload, GradientIsTheClosedForm) {
  const auto workload = load("hyperplane");
  const auto& data = dynamic_cast<const HyperplaneDataset&>(workload->data());
  const auto model = workload->make_model(8);
  const std::vector<float> parameters = flat(*model);  // 8,192 weights, then the bias
  constexpr std::size_t kDimensions = HyperplaneDataset::kDimensions;
  const std::vector<std::uint32_t> batch{3, 500, 3, 77};
  std::vector<double> expected(kDimensions + 1);
  double loss = 0;
  for (const std::uint32_t point : batch) {
    std::vector<float> x(kDimensions);
    data.copy_point(Split::train, point, x.data());
    double error = parameters[kDimensions] - static_cast<double>(data.target(Split::train, point));
    for (std::size_t d = 0; d < kDimensions; ++d) error += static_cast<double>(parameters[d]) * x[d];
    loss += error * error / 4;
    for (std::size_t d = 0; d < kDimensions; ++d) expected[d] += 2 * error * x[d] / 4;
    expected[kDimensions] += 2 * error / 4;
  }
  const at::Tensor measured = workload->loss(*model, batch);
  EXPECT_NEAR(measured.item<double>(), loss, 1e-5 * loss);
  measured.backward();
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : model->parameters()) gradients.push_back(parameter.grad().flatten());
  ASSERT_EQ(gradients.size(), 2u);
  const double scale = std::sqrt(loss);
  for (std::size_t d = 0; d < kDimensions; ++d) {
    ASSERT_NEAR(gradients[0].const_data_ptr<float>()[d], expected[d], 1e-4 * scale) << d;
  }
  EXPECT_NEAR(gradients[1].item<double>(), expected[kDimensions], 1e-4 * scale);
}

TEST(SequenceWorkload, PaddingChangesNothing) {
  const auto workload = load("vowels");
  if (!workload) return;
  const auto& lengths = workload->lengths();
  const auto shortest = static_cast<std::uint32_t>(std::ranges::min_element(lengths) - lengths.begin());
  const auto longest = static_cast<std::uint32_t>(std::ranges::max_element(lengths) - lengths.begin());
  const auto model = workload->make_model(1);
  const double alone = workload->loss(*model, std::vector{shortest}).item<double>();
  const double other = workload->loss(*model, std::vector{longest}).item<double>();
  EXPECT_NEAR(workload->loss(*model, std::vector{shortest, longest}).item<double>(), (alone + other) / 2, 1e-5);
  EXPECT_EQ(workload->units(std::vector{shortest, longest}), 2u * lengths[longest]);
}

// What the thread that evaluates beside a training relies on.
TEST(Threads, TheirNumberIsSetForEachThreadByItself) {
  at::set_num_threads(2);
  EXPECT_EQ(at::get_num_threads(), 2);  // from here on it is this thread's own
  std::thread([] {
    at::set_num_threads(1);
    EXPECT_EQ(at::get_num_threads(), 1);
  }).join();
  EXPECT_EQ(at::get_num_threads(), 2);
  at::set_num_threads(1);
}

TEST(SequenceWorkload, VowelsAreLearntByOneProcess) {
  const auto workload = load("vowels");
  if (!workload) return;
  const auto model = workload->make_model(1);
  train(*workload, *model, workload->info().epochs);
  EXPECT_GE(workload->evaluate(*model, Split::test).accuracy.value(), 0.93);
  EXPECT_GE(workload->evaluate(*model, Split::train).accuracy.value(), 0.98);
}

TEST(DigitsWorkload, DigitsAreLearntByOneProcess) {
  for (const char* name : {"digits", "digits-wide"}) {
    const auto workload = load(name);
    if (!workload) return;
    const auto model = workload->make_model(1);
    train(*workload, *model, workload->info().epochs);
    EXPECT_GE(workload->evaluate(*model, Split::test).accuracy.value(), 0.95) << name;
  }
}

TEST(DigitsWorkload, AResidualNetworkLearnsThemInAQuarterOfTheEpochs) {
  const auto workload = load("resnet-small");
  if (!workload) return;
  const auto model = workload->make_model(1);
  train(*workload, *model, workload->info().epochs);
  EXPECT_GE(workload->evaluate(*model, Split::test).accuracy.value(), 0.95);
}

TEST(BranchesWorkload, UsesItsSecondHeadInEveryTenthStep) {
  const auto workload = load("branches");
  if (!workload) return;
  const auto model = workload->make_model(1);
  for (int step = 1; step <= 30; ++step) {
    for (at::Tensor& parameter : model->parameters()) parameter.mutable_grad() = at::Tensor();
    workload->loss(*model, first_samples(4)).backward();
    for (const auto& item : model->named_parameters()) {
      EXPECT_EQ(item.value().grad().defined(), step % 10 == 0 || !item.key().starts_with("odd")) << step << item.key();
    }
    (void)workload->evaluate(*model, Split::test);  // is no step
  }
}

TEST(DigitsWorkload, AnswersWithTheSmallestNumbersWhereAllScoresAreEqual) {
  const auto workload = load("digits");
  if (!workload) return;
  const auto model = workload->make_model(1);
  for (const at::Tensor& parameter : model->parameters()) parameter.detach().zero_();
  const auto& labels = dynamic_cast<const DigitsDataset&>(workload->data()).images(Split::test).labels;
  const auto below = [&](std::int64_t limit) {
    const auto hits = std::ranges::count_if(labels, [limit](std::int64_t label) { return label < limit; });
    return static_cast<double>(hits) / static_cast<double>(labels.size());
  };
  const Evaluation evaluation = workload->evaluate(*model, Split::test);
  EXPECT_EQ(evaluation.accuracy, below(1));
  EXPECT_EQ(evaluation.top5, below(5));
}

}  // namespace
}  // namespace stretto
