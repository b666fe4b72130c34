#include "stretto/train/job/no_gradients.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "stretto/base/error.h"
#include "stretto/collective/schedules/partial_schedule.h"

namespace stretto {
namespace {

std::uint64_t bytes_of_model(const TrainingTask& task) {
  const auto rank = task.start_rank({.seed = 1, .lr = task.facts().lr, .momentum = task.facts().momentum});
  std::uint64_t bytes = 0;
  for (const BucketSpec& bucket : rank->replica().buckets()) bytes += bucket.count * size_of(bucket.type);
  return bytes;
}

class ZeroReplica final : public Replica {
 public:
  ZeroReplica(std::uint64_t buckets, std::uint64_t count, std::uint64_t model_bytes, bool momentum)
      : model_bytes_(model_bytes),
        buckets_(buckets, {DataType::float32, count}),
        parameters_(buckets * count),
        momentum_(momentum ? buckets * count : 0) {}

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
  void on_bucket_ready(std::function<void(int)>) override {}  // simulated steps hand nothing over before their end
  void end_backward() override {}
  int num_trained() const override { return static_cast<int>(buckets_.size()); }
  bool used(int) const override { return true; }
  std::optional<std::string> find_non_finite(int) const override { return std::nullopt; }

  void step(ConstMemory, std::span<const double>, std::span<const std::int64_t>) override {}
  void step() override {}
  OptimizerOptions optimizer_options() const override { return {}; }
  std::optional<SgdRule> sgd_rule() const override { return SgdRule{.momentum = momentum_.empty() ? 0 : 0.9}; }
  void set_lr_factor(double) override {}
  std::span<std::byte> parameters(int bucket) override { return part_of(parameters_, bucket); }
  std::vector<std::span<std::byte>> weights() override { return parts_of(parameters_); }
  std::vector<Buffer> floating_buffers() override { return {}; }
  std::vector<std::pair<std::size_t, std::size_t>> moments() const override { return {}; }
  std::vector<std::span<std::int64_t>> counts() override { return {}; }

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
    const std::size_t count = buckets_.front().count;
    return std::as_writable_bytes(std::span(all).subspan(static_cast<std::size_t>(bucket) * count, count));
  }
  std::vector<std::span<std::byte>> parts_of(std::vector<float>& all) const {
    std::vector<std::span<std::byte>> parts;
    for (int b = 0; !all.empty() && b < num_trained(); ++b) parts.push_back(part_of(all, b));
    return parts;
  }

  const std::uint64_t model_bytes_;
  const std::vector<BucketSpec> buckets_;  // of equal size, each of one parameter
  std::vector<float> parameters_, momentum_;
  std::vector<bool> attached_;  // by set
};

class ZeroRank final : public RankTask {
 public:
  ZeroRank(std::uint64_t buckets, std::uint64_t count, std::uint64_t model_bytes, const RankTaskOptions& options)
      : replica_(buckets, count, model_bytes, options.momentum > 0) {}

  Replica& replica() override { return replica_; }
  double forward_backward(std::span<const std::uint32_t>, std::uint64_t) override { return kNone; }
  TaskScore score_test() override { return {.loss = kNone}; }
  TaskScore score_training() override { return {.loss = kNone}; }

 private:
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  ZeroReplica replica_;
};

}  // namespace

NoGradients::NoGradients(const TrainingTask& task, std::uint64_t model_bytes, int buckets)
    : facts_(task.facts()),
      model_bytes_(model_bytes != 0 ? model_bytes : bytes_of_model(task)),
      buckets_(static_cast<std::uint64_t>(buckets)),
      count_(std::max<std::uint64_t>(1, std::min(model_bytes_, kLargeBucketBytes) / sizeof(float) / buckets_)) {}

std::unique_ptr<RankTask> NoGradients::start_rank(const RankTaskOptions& options) const {
  return std::make_unique<ZeroRank>(buckets_, count_, model_bytes_, options);
}

double NoGradients::scale() const {
  return static_cast<double>(model_bytes_) / static_cast<double>(buckets_ * count_ * sizeof(float));
}

}  // namespace stretto
