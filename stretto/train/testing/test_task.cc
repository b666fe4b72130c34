#include "stretto/train/testing/test_task.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <sstream>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/base/random.h"
#include "stretto/train/replica/flat_math.h"
#include "stretto/train/replica/replica.h"

namespace stretto {
namespace {

std::span<std::byte> bytes(std::vector<float>& numbers) {
  return std::as_writable_bytes(std::span(numbers));
}

class LinearReplica final : public Replica, private GradientsByTensor, private ReadsByBucket, private LocalBuffers {
 public:
  LinearReplica(const LinearTaskOptions& task, const RankTaskOptions& options)
      : task_(task),
        options_(options),
        buckets_{{DataType::float32, 1}, {DataType::float32, task.features}},
        tensors_{{.name = "b", .count = 1}, {.name = "w", .count = task.features, .bucket = 1}},
        parameters_{std::vector<float>(1), std::vector<float>(task.features)},
        momentum_(parameters_),
        own_(parameters_) {
    Random random(options.seed);
    for (float& w : parameters_[1]) w = static_cast<float>(random.normal());
    attach_own();
  }

  const std::vector<BucketSpec>& buckets() const override { return buckets_; }
  void attach(int, Memory memory) override {
    gradient_ = {memory.begin(), memory.end()};
    for (const auto& bucket : gradient_) std::memset(bucket.data(), 0, bucket.size());
    next_bucket_ = 0;
  }
  void attach_own() override {
    const std::array<std::span<std::byte>, 2> memory{bytes(own_[0]), bytes(own_[1])};
    attach(0, memory);
  }
  void on_bucket_ready(std::function<void(int)> ready) override { ready_ = std::move(ready); }
  GradientsByTensor* gradients_by_tensor() override { return this; }
  std::span<const TrainedTensor> trained_tensors() const override { return tensors_; }
  void on_gradient_ready(std::function<void(int)> ready, bool /*taken*/) override {
    gradient_ready_ = std::move(ready);
  }
  void record_graphs(bool on) override { recording_ = on; }
  // Loss, backward pass, and behind it the two gradients.
  std::optional<ExecutedGraph> take_graph() override {
    if (!std::exchange(graph_there_, false)) return std::nullopt;
    ExecutedGraph graph{.num_nodes = 4, .edges = {{0, 1}, {1, 2}, {1, 3}}};
    for (const TrainedTensor& tensor : tensors_) {
      graph.collectives.push_back({static_cast<ExecutedGraph::Node>(2 + tensor.bucket),
                                   {.name = tensor.name, .type = tensor.type, .count = tensor.count}});
    }
    return graph;
  }
  ReadsByBucket* reads_by_bucket() override { return this; }
  void on_bucket_read(std::function<void(int)> read) override { read_ = std::move(read); }
  void about_to_read(int bucket) const {
    if (read_) read_(bucket);
  }
  void end_backward() override {
    while (next_bucket_ < 2) bucket_done();
  }
  void bucket_done() {
    const int bucket = next_bucket_++;
    if (bucket == 0) graph_there_ = recording_;
    if (gradient_ready_) gradient_ready_(bucket);  // the bucket's one parameter
    if (ready_) ready_(bucket);
  }
  std::optional<std::string> find_non_finite(int bucket) const override {
    const auto at = first_non_finite(DataType::float32, gradient_[static_cast<std::size_t>(bucket)]);
    if (at < 0) return std::nullopt;
    return text(bucket == 0 ? "b" : "w", " (element ", at, " is nan)");
  }

  int num_trained() const override { return 2; }
  bool used(int) const override { return true; }
  int bucket_of(int parameter) const override { return parameter; }
  void step(ConstMemory sum, std::span<const double> divisors, std::span<const std::int64_t>) override {
    for (std::size_t b = 0; b < 2; ++b) divide_or_clear(DataType::float32, bytes(own_[b]), sum[b], divisors[b]);
    gradient_ = {bytes(own_[0]), bytes(own_[1])};
    for (std::size_t b = 0; b < 2; ++b) moves_[b] = !sum[b].empty();
    step();
    moves_ = {true, true};
  }
  void step() override {
    const auto lr = static_cast<float>(options_.lr * lr_factor_);
    const auto keep = static_cast<float>(options_.momentum);
    for (std::size_t b = 0; b < 2; ++b) {
      if (!moves_[b]) continue;
      const auto* gradient = reinterpret_cast<const float*>(gradient_[b].data());
      for (std::size_t i = 0; i < parameters_[b].size(); ++i) {
        momentum_[b][i] = keep * momentum_[b][i] + gradient[i];
        parameters_[b][i] -= lr * momentum_[b][i];
      }
    }
  }
  OptimizerOptions optimizer_options() const override { return {options_.lr * lr_factor_, 0}; }
  std::optional<SgdRule> sgd_rule() const override {
    return SgdRule{.lr = options_.lr * lr_factor_, .momentum = options_.momentum};
  }
  void set_lr_factor(double factor) override { lr_factor_ = factor; }

  std::span<std::byte> parameters(int bucket) override { return bytes(parameters_[static_cast<std::size_t>(bucket)]); }
  std::vector<std::span<std::byte>> weights() override {
    return {bytes(parameters_[0]), bytes(parameters_[1]), bytes(running_mean_)};
  }
  LocalBuffers* local_buffers() override { return this; }
  std::vector<Buffer> floating_buffers() override {
    if (task_.in_average) task_.in_average();
    return {{DataType::float32, bytes(running_mean_)}};
  }
  std::string optimizer_state() override {
    std::string all;
    for (const auto& momentum : momentum_) {
      all.append(reinterpret_cast<const char*>(momentum.data()), momentum.size() * sizeof(float));
    }
    return all;
  }
  void set_optimizer_state(const std::string& state) override {
    const char* from = state.data();
    for (auto& momentum : momentum_) {
      std::memcpy(momentum.data(), from, momentum.size() * sizeof(float));
      from += momentum.size() * sizeof(float);
    }
  }
  std::vector<Buffer> optimizer_arrays() override {
    if (task_.in_average) task_.in_average();
    return {{DataType::float32, bytes(momentum_[0])}, {DataType::float32, bytes(momentum_[1])}};
  }
  std::string model_description() const override { return text("linear with ", buckets_[1].count, " features\n"); }
  std::string optimizer_description() const override {
    return text("sgd lr=", options_.lr, " momentum=", options_.momentum, "\n");
  }
  std::string library() const override { return "plain loops"; }
  ReplicaChecksum checksum() override {
    Hash64 parameters, optimizer;
    for (std::size_t b = 0; b < 2; ++b) {
      parameters.add(bytes(parameters_[b]));
      optimizer.add(bytes(momentum_[b]));
    }
    return {parameters.value(), optimizer.value()};
  }
  std::string save() override {
    if (task_.in_save) task_.in_save();
    std::string out;
    for (const auto& piece : state()) out.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    return out;
  }
  void load(const std::string& saved) override {
    std::istringstream in(saved);
    for (const auto& piece : state()) in.read(reinterpret_cast<char*>(piece.data()), std::ssize(piece));
    if (!in) throw Failure({Errc::bad_input, "the saved state is too short"});
  }

  const std::vector<float>& w() const { return parameters_[1]; }
  float b() const { return parameters_[0][0]; }
  float* gradient(std::size_t bucket) { return reinterpret_cast<float*>(gradient_[bucket].data()); }
  float& running_mean() { return running_mean_[0]; }

 private:
  std::vector<std::span<std::byte>> state() {
    auto all = weights();
    all.push_back(bytes(momentum_[0]));
    all.push_back(bytes(momentum_[1]));
    return all;
  }

  const LinearTaskOptions& task_;
  const RankTaskOptions options_;
  const std::vector<BucketSpec> buckets_;
  const std::vector<TrainedTensor> tensors_;
  std::vector<std::vector<float>> parameters_, momentum_, own_;
  std::vector<float> running_mean_{0};
  std::vector<std::span<std::byte>> gradient_;
  std::array<bool, 2> moves_{true, true};  // the next step, each bucket
  std::function<void(int)> ready_, read_, gradient_ready_;
  bool recording_ = false;
  bool graph_there_ = false;
  int next_bucket_ = 0;
  double lr_factor_ = 1;
};

struct LinearData {
  std::vector<float> x;  // samples × features
  std::vector<float> y;
};

class LinearRank final : public RankTask {
 public:
  LinearRank(const LinearTaskOptions& options, const LinearData& data, const RankTaskOptions& rank)
      : options_(options), data_(data), evaluates_(rank.evaluates), replica_(options, rank) {}

  Replica& replica() override { return replica_; }

  double forward_backward(std::span<const std::uint32_t> samples, std::uint64_t) override {
    if (options_.before_batch) options_.before_batch(step_++);
    for (const int bucket : {0, 1}) replica_.about_to_read(bucket);
    const auto n = static_cast<float>(samples.size());
    double loss = 0;
    for (const std::uint32_t sample : samples) {
      const float* x = &data_.x[sample * options_.features];
      float error = residual(sample);
      if (static_cast<std::int64_t>(sample) == options_.poisoned) error = std::numeric_limits<float>::quiet_NaN();
      loss += static_cast<double>(error * error / n);
      replica_.gradient(0)[0] += 2 * error / n;
      for (std::size_t i = 0; i < options_.features; ++i) replica_.gradient(1)[i] += 2 * error * x[i] / n;
      replica_.running_mean() = 0.9f * replica_.running_mean() + 0.1f * x[0];
    }
    replica_.bucket_done();
    replica_.bucket_done();
    return loss;
  }

  TaskScore score_test() override {
    if (evaluates_ && options_.in_evaluation) options_.in_evaluation();
    return score_training();
  }
  TaskScore score_training() override {
    double loss = 0;
    for (std::uint32_t sample = 0; sample < options_.samples; ++sample) loss += std::pow(residual(sample), 2);
    return {.loss = loss / static_cast<double>(options_.samples)};
  }

 private:
  float residual(std::uint32_t sample) const {
    const float* x = &data_.x[sample * options_.features];
    return std::inner_product(x, x + options_.features, replica_.w().begin(), replica_.b()) - data_.y[sample];
  }

  const LinearTaskOptions& options_;
  const LinearData& data_;
  const bool evaluates_;
  LinearReplica replica_;
  std::uint64_t step_ = 0;
};

class LinearTask final : public TrainingTask {
 public:
  explicit LinearTask(LinearTaskOptions options) : options_(std::move(options)) {
    facts_ = {.name = "linear", .unit = "row", .samples = options_.samples, .batch = 4, .lr = 0.05, .epochs = 4};
    Random random(11);
    for (std::uint64_t sample = 0; sample < options_.samples; ++sample) {
      float y = 0.5f;
      for (std::uint64_t i = 0; i < options_.features; ++i) {
        data_.x.push_back(static_cast<float>(random.normal()));
        y += data_.x.back() * static_cast<float>(i + 1);
      }
      data_.y.push_back(y);
      if (options_.labels > 0) facts_.labels.push_back(static_cast<std::uint32_t>(sample % options_.labels));
      if (options_.varied) facts_.lengths.push_back(1 + static_cast<std::uint32_t>(random.below(4)));
    }
    facts_.bucketed = options_.varied;
  }

  const TaskFacts& facts() const override { return facts_; }
  std::unique_ptr<RankTask> start_rank(const RankTaskOptions& options) const override {
    return std::make_unique<LinearRank>(options_, data_, options);
  }

 private:
  const LinearTaskOptions options_;
  TaskFacts facts_;
  LinearData data_;
};

}  // namespace

std::unique_ptr<TrainingTask> linear_task(LinearTaskOptions options) {
  return std::make_unique<LinearTask>(options);
}

}  // namespace stretto
