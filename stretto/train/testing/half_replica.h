#pragma once

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "stretto/base/words.h"
#include "stretto/train/replica/flat_math.h"
#include "stretto/train/replica/replica.h"

namespace stretto {

/// For tests: a vector of bfloat16 that plain gradient descent moves, with gradients of any type. A test's
/// backward pass fills gradient() in. Its buffers are a mean and a variance of bfloat16.
class HalfReplica final : public Replica, private LocalBuffers {
 public:
  static constexpr DataType kType = DataType::bfloat16;

  HalfReplica(DataType gradients, std::uint64_t count, double lr)
      : lr_(lr), gradient_buckets_{{gradients, count}}, parameter_buckets_{{kType, count}} {
    own_.resize(count * size_of(gradients));
    parameters_ = momentum_ = std::vector<BFloat16>(count);
    attach_own();
  }

  std::span<std::byte> gradient() const { return gradient_; }
  std::vector<BFloat16>& numbers() { return parameters_; }
  std::vector<BFloat16>& statistics() { return statistics_; }
  std::vector<BFloat16>& momentum() { return momentum_; }

  const std::vector<BucketSpec>& buckets() const override { return gradient_buckets_; }
  const std::vector<BucketSpec>& parameter_buckets() const override { return parameter_buckets_; }
  void attach(int, Memory memory) override {
    gradient_ = memory[0];
    std::memset(gradient_.data(), 0, gradient_.size());
  }
  void attach_own() override {
    const std::span<std::byte> own = own_;
    attach(0, Memory(&own, 1));
  }
  void on_bucket_ready(std::function<void(int)> ready) override { ready_ = std::move(ready); }
  void end_backward() override {
    if (ready_) ready_(0);
  }
  int num_trained() const override { return 1; }
  bool used(int) const override { return true; }
  int bucket_of(int) const override { return 0; }
  std::optional<std::string> find_non_finite(int) const override {
    if (all_finite(gradient_buckets_[0].type, gradient_)) return std::nullopt;
    return "w";
  }

  void step(ConstMemory sum, std::span<const double> divisors, std::span<const std::int64_t>) override {
    const DataType type = gradient_buckets_[0].type;
    std::vector<std::byte> mean(sum[0].size());
    divide(type, mean, sum[0], divisors[0]);
    move(type, mean);
  }
  void step() override { move(gradient_buckets_[0].type, gradient_); }
  OptimizerOptions optimizer_options() const override { return {lr_, 0}; }
  std::optional<SgdRule> sgd_rule() const override { return SgdRule{.lr = lr_}; }
  void set_lr_factor(double) override {}

  std::span<std::byte> parameters(int) override { return bytes(parameters_); }
  std::vector<std::span<std::byte>> weights() override { return {bytes(parameters_), bytes(statistics_)}; }
  LocalBuffers* local_buffers() override { return this; }
  std::vector<Buffer> floating_buffers() override {
    return {{kType, bytes(statistics_).first(2)}, {kType, bytes(statistics_).subspan(2)}};
  }
  std::vector<std::pair<std::size_t, std::size_t>> moments() const override { return {{0, 1}}; }

  std::string model_description() const override { return text(parameters_.size(), " bfloat16\n"); }
  std::string optimizer_description() const override { return text("sgd lr=", lr_, "\n"); }
  std::string optimizer_state() override { return {}; }
  void set_optimizer_state(const std::string&) override {}
  std::vector<Buffer> optimizer_arrays() override { return {{kType, bytes(momentum_)}}; }
  std::string library() const override { return "plain loops"; }
  ReplicaChecksum checksum() override { return {Hash64::of(bytes(parameters_)), 0}; }
  std::string save() override { return {}; }
  void load(const std::string&) override {}

 private:
  static std::span<std::byte> bytes(std::vector<BFloat16>& numbers) {
    return std::as_writable_bytes(std::span(numbers));
  }

  void move(DataType type, std::span<const std::byte> gradient) {
    std::vector<std::byte> by(parameters_.size() * sizeof(float)), wide(by.size());
    widen(type, by, gradient);
    widen(kType, wide, bytes(parameters_));
    add_scaled(DataType::float32, wide, by, -lr_);
    narrow(kType, bytes(parameters_), wide);
  }

  const double lr_;
  const std::vector<BucketSpec> gradient_buckets_, parameter_buckets_;
  std::vector<std::byte> own_;
  std::vector<BFloat16> parameters_, momentum_, statistics_ = std::vector<BFloat16>(2);
  std::span<std::byte> gradient_;
  std::function<void(int)> ready_;
};

}  // namespace stretto
