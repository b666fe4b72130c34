#include "stretto/train/job/no_gradients.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "stretto/base/error.h"
#include "stretto/collective/schedules/round_schedules.h"

namespace stretto {
namespace {

constexpr double kRounding = 1e-12;  // so that a third of three is one

std::uint64_t bytes_of_model(const TrainingTask& task) {
  const auto rank = task.start_rank({.seed = 1, .lr = task.facts().lr, .momentum = task.facts().momentum});
  std::uint64_t bytes = 0;
  for (const BucketSpec& bucket : rank->replica().buckets()) bytes += bucket.count * size_of(bucket.type);
  return bytes;
}

/// The layers of the stand-in, one bucket each: no smaller than one number.
std::vector<BucketSpec> stand_in(const std::vector<ModelLayer>& layers, std::uint64_t model_bytes) {
  double all = 0;
  for (const ModelLayer& layer : layers) all += layer.bytes;
  const std::uint64_t numbers = std::min(model_bytes, kLargeBucketBytes) / sizeof(float);
  std::vector<BucketSpec> buckets;
  for (const ModelLayer& layer : layers) {
    const double share = all > 0 ? layer.bytes / all : 1.0 / static_cast<double>(layers.size());
    const auto count = static_cast<std::uint64_t>(static_cast<double>(numbers) * share * (1 + kRounding));
    buckets.push_back({DataType::float32, std::max<std::uint64_t>(1, count)});
  }
  return buckets;
}

std::uint64_t numbers_in(const std::vector<BucketSpec>& buckets) {
  std::uint64_t numbers = 0;
  for (const BucketSpec& bucket : buckets) numbers += bucket.count;
  return numbers;
}

class ZeroReplica final : public Replica, private ReadsByBucket {
 public:
  ZeroReplica(const std::vector<ModelLayer>& layers, const std::vector<BucketSpec>& buckets, std::uint64_t model_bytes,
              bool momentum)
      : model_bytes_(model_bytes),
        layers_(layers),
        buckets_(buckets),
        parameters_(numbers_in(buckets)),
        momentum_(momentum ? parameters_.size() : 0) {}

  /// Forward and backward, where somebody makes it last.
  void pass() {
    if (!progress_) return;
    double all = 0, behind = 0;
    for (const ModelLayer& layer : layers_) all += layer.forward + layer.backward;
    const auto come_to = [&](double part) {
      behind += part;
      progress_(all > 0 ? behind / all : 1);
    };
    double part = 0;  // of the layer before
    for (int b = num_trained() - 1; b >= 0; --b) {
      come_to(part);
      if (read_) read_(b);
      part = layer(b).forward;
    }
    come_to(part);
    for (int b = 0; b < num_trained(); ++b) {
      come_to(layer(b).backward);
      hand_over();
    }
  }

  const std::vector<BucketSpec>& buckets() const override { return buckets_; }
  // What nobody writes to stays zero.
  void attach(int set, Memory memory) override {
    const auto index = static_cast<std::size_t>(set);
    if (index >= attached_.size()) attached_.resize(index + 1);
    if (attached_[index]) return;
    for (const std::span<std::byte> bucket : memory) std::memset(bucket.data(), 0, bucket.size());
    attached_[index] = true;
  }
  void attach_own() override {}
  void on_bucket_ready(std::function<void(int)> ready) override { ready_ = std::move(ready); }
  void end_backward() override {
    while (next_bucket_ < num_trained()) hand_over();
    next_bucket_ = 0;
  }
  int num_trained() const override { return static_cast<int>(buckets_.size()); }
  bool used(int) const override { return true; }
  int bucket_of(int parameter) const override { return parameter; }
  std::optional<std::string> find_non_finite(int) const override { return std::nullopt; }
  ReadsByBucket* reads_by_bucket() override { return this; }
  void on_bucket_read(std::function<void(int)> read) override { read_ = std::move(read); }
  void on_progress(std::function<void(double)> progress) override { progress_ = std::move(progress); }

  void step(ConstMemory, std::span<const double>, std::span<const std::int64_t>) override {}
  void step() override {}
  OptimizerOptions optimizer_options() const override { return {}; }
  std::optional<SgdRule> sgd_rule() const override { return SgdRule{.momentum = momentum_.empty() ? 0 : 0.9}; }
  void set_lr_factor(double) override {}
  std::span<std::byte> parameters(int bucket) override { return part_of(parameters_, bucket); }
  std::vector<std::span<std::byte>> weights() override { return parts_of(parameters_); }

  std::string model_description() const override { return text("zeros in place of ", model_bytes_, " bytes\n"); }
  std::string optimizer_description() const override { return "none\n"; }
  std::string optimizer_state() override { return {}; }
  void set_optimizer_state(const std::string&) override {}
  std::vector<Buffer> optimizer_arrays() override {
    std::vector<Buffer> arrays;
    for (const std::span<std::byte> part : parts_of(momentum_)) arrays.push_back({DataType::float32, part});
    return arrays;
  }
  std::string library() const override { return "no gradients"; }
  ReplicaChecksum checksum() override { return {}; }
  std::string save() override { return {}; }
  void load(const std::string&) override {}

 private:
  std::span<std::byte> part_of(std::vector<float>& all, int bucket) const {
    std::size_t before = 0;
    for (int b = 0; b < bucket; ++b) before += buckets_[static_cast<std::size_t>(b)].count;
    const std::size_t count = buckets_[static_cast<std::size_t>(bucket)].count;
    return std::as_writable_bytes(std::span(all).subspan(before, count));
  }
  const ModelLayer& layer(int bucket) const { return layers_[static_cast<std::size_t>(bucket)]; }
  void hand_over() {
    const int bucket = next_bucket_++;
    if (ready_) ready_(bucket);
  }
  std::vector<std::span<std::byte>> parts_of(std::vector<float>& all) const {
    std::vector<std::span<std::byte>> parts;
    for (int b = 0; !all.empty() && b < num_trained(); ++b) parts.push_back(part_of(all, b));
    return parts;
  }

  const std::uint64_t model_bytes_;
  const std::vector<ModelLayer> layers_;
  const std::vector<BucketSpec> buckets_;  // each of one parameter
  std::vector<float> parameters_, momentum_;
  std::function<void(int)> ready_, read_;
  std::function<void(double)> progress_;
  int next_bucket_ = 0;         // to hand over
  std::vector<bool> attached_;  // by set
};

class ZeroRank final : public RankTask {
 public:
  ZeroRank(const std::vector<ModelLayer>& layers, const std::vector<BucketSpec>& buckets, std::uint64_t model_bytes,
           const RankTaskOptions& options)
      : replica_(layers, buckets, model_bytes, options.momentum > 0) {}

  Replica& replica() override { return replica_; }
  double forward_backward(std::span<const std::uint32_t>, std::uint64_t) override {
    replica_.pass();
    return kNone;
  }
  TaskScore score_test() override { return {.loss = kNone}; }
  TaskScore score_training() override { return {.loss = kNone}; }

 private:
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  ZeroReplica replica_;
};

}  // namespace

NoGradients::NoGradients(const TrainingTask& task, std::uint64_t model_bytes, std::vector<ModelLayer> layers)
    : facts_(task.facts()),
      model_bytes_(model_bytes != 0 ? model_bytes : bytes_of_model(task)),
      layers_(layers.rbegin(), layers.rend()),
      buckets_(stand_in(layers_, model_bytes_)) {}

std::unique_ptr<RankTask> NoGradients::start_rank(const RankTaskOptions& options) const {
  return std::make_unique<ZeroRank>(layers_, buckets_, model_bytes_, options);
}

double NoGradients::scale() const {
  return static_cast<double>(model_bytes_) / static_cast<double>(numbers_in(buckets_) * sizeof(float));
}

}  // namespace stretto
