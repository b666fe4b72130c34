#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <tuple>
#include <vector>

#include "stretto/base/random.h"
#include "workloads/sequence_data.h"
#include "workloads/workload_parts.h"

namespace stretto {
namespace {

constexpr std::int64_t kHidden = 64;
constexpr std::size_t kEvaluationBatch = 256;

// Sequences padded with zeros to the longest of them.
struct PaddedBatch {
  at::Tensor steps;    // [step][sequence][channel]
  at::Tensor weights;  // [step][sequence][1]: 1/length on a sequence's own steps, 0 on padding
  at::Tensor labels;   // [sequence]
};

PaddedBatch pad(const Sequences& sequences, std::span<const std::uint32_t> samples) {
  std::uint32_t longest = 0;
  for (const std::uint32_t sample : samples) longest = std::max(longest, sequences.length(sample));
  const auto batch = static_cast<std::int64_t>(samples.size());
  const auto channels = static_cast<std::size_t>(sequences.channels);
  PaddedBatch out{at::zeros({longest, batch, sequences.channels}, at::kFloat),
                  at::zeros({longest, batch, 1}, at::kFloat), at::empty({batch}, at::kLong)};
  float* steps = out.steps.mutable_data_ptr<float>();
  float* weights = out.weights.mutable_data_ptr<float>();
  auto* labels = out.labels.mutable_data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::span<const float> sequence = sequences.sequence(samples[i]);
    const auto length = std::size_t{sequences.length(samples[i])};
    for (std::size_t step = 0; step < length; ++step) {
      const std::size_t place = step * samples.size() + i;
      std::memcpy(steps + place * channels, sequence.data() + step * channels, channels * sizeof(float));
      weights[place] = 1.0F / static_cast<float>(length);
    }
    labels[i] = sequences.labels[samples[i]];
  }
  return out;
}

class SequenceClassifier final : public torch::nn::Module {
 public:
  SequenceClassifier(std::int64_t channels, std::int64_t classes, std::uint64_t seed)
      : lstm_(register_module("lstm", torch::nn::LSTM(channels, kHidden))),
        output_(register_module("output", torch::nn::Linear(kHidden, classes))) {
    Random random(seed);
    const double bound = 1 / std::sqrt(static_cast<double>(kHidden));
    draw_parameters(*lstm_, bound, random);
    draw_parameters(*output_, bound, random);
  }

  at::Tensor forward(const PaddedBatch& batch, const BeforeLayer& before = no_hook) {
    before(*lstm_);
    const at::Tensor outputs = std::get<0>(lstm_->forward(batch.steps));
    before(*output_);
    return output_->forward((outputs * batch.weights).sum(0));
  }

 private:
  torch::nn::LSTM lstm_;
  torch::nn::Linear output_;
};

class SequenceWorkload final : public Workload {
 public:
  explicit SequenceWorkload(std::shared_ptr<const SequenceDataset> data) : Workload(data), sequences_(*data) {}

  std::shared_ptr<torch::nn::Module> make_model(std::uint64_t seed) const override {
    const Sequences& train = sequences_.sequences(Split::train);
    return std::make_shared<SequenceClassifier>(train.channels, train.classes, seed);
  }

  Evaluation evaluate(torch::nn::Module& model, Split split) const override {
    const at::NoGradGuard no_gradients;
    auto& classifier = own<SequenceClassifier>(model);
    const Sequences& sequences = sequences_.sequences(split);
    std::vector<std::uint32_t> order(sequences.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::stable_sort(order, {}, [&](std::uint32_t i) { return sequences.length(i); });
    double loss = 0;
    Hits hits(static_cast<std::size_t>(sequences.classes));
    for (std::size_t start = 0; start < order.size(); start += kEvaluationBatch) {
      const std::size_t size = std::min(kEvaluationBatch, order.size() - start);
      const PaddedBatch batch = pad(sequences, std::span(order).subspan(start, size));
      const at::Tensor scores = classifier.forward(batch);
      loss += at::cross_entropy_loss(scores, batch.labels).item<double>() * static_cast<double>(size);
      count_hits(hits, scores, batch.labels);
    }
    return {loss / static_cast<double>(order.size()), hits.accuracy(), hits.top5()};
  }

 private:
  at::Tensor compute_loss(torch::nn::Module& model, std::span<const std::uint32_t> samples,
                          const BeforeLayer& before) const override {
    const PaddedBatch batch = pad(sequences_.sequences(Split::train), samples);
    return at::cross_entropy_loss(own<SequenceClassifier>(model).forward(batch, before), batch.labels);
  }

  const SequenceDataset& sequences_;  // owned by data()
};

}  // namespace

std::unique_ptr<Workload> make_sequence_workload(std::shared_ptr<const SequenceDataset> data) {
  return std::make_unique<SequenceWorkload>(std::move(data));
}

}  // namespace stretto
