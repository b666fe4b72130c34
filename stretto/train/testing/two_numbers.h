#pragma once

#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "stretto/base/words.h"
#include "stretto/train/replica/flat_math.h"
#include "stretto/train/replica/replica.h"

namespace stretto {

/// For tests: two parameters, a bucket each, of which each step moves one by one gradient: w −= rate · v, v = momentum
/// · v + g.
class TwoNumbers final : public Replica {
 public:
  explicit TwoNumbers(float momentum) : momentum_(momentum) { attach_own(); }

  const std::vector<BucketSpec>& buckets() const override { return buckets_; }
  void attach(int, Memory memory) override {
    gradients_.assign(memory.begin(), memory.end());
    for (const auto& bucket : gradients_) std::memset(bucket.data(), 0, bucket.size());
    next_ = 0;
  }
  void attach_own() override {
    const std::array own{bytes(own_[0]), bytes(own_[1])};
    attach(0, own);
  }
  void on_bucket_ready(std::function<void(int)> ready) override { ready_ = std::move(ready); }
  /// The backward pass as far as to a bucket: it adds a gradient there.
  void backward(int bucket, float gradient) {
    reinterpret_cast<float*>(gradients_[static_cast<std::size_t>(bucket)].data())[0] += gradient;
    if (ready_) ready_(bucket);
    next_ = bucket + 1;
  }
  void end_backward() override {
    while (next_ < 2) backward(next_, 0);
  }
  int num_trained() const override { return 2; }
  bool used(int) const override { return true; }
  int bucket_of(int parameter) const override { return parameter; }
  std::optional<std::string> find_non_finite(int bucket) const override {
    const auto at = first_non_finite(DataType::float32, gradients_[static_cast<std::size_t>(bucket)]);
    return at < 0 ? std::nullopt : std::optional(text("number ", bucket));
  }

  void step(ConstMemory sum, std::span<const double> divisors, std::span<const std::int64_t>) override {
    for (std::size_t b = 0; b < 2; ++b) {
      divide_or_clear(DataType::float32, bytes(own_[b]), sum[b], divisors[b]);
      moves_[b] = !sum[b].empty();
    }
    gradients_ = {bytes(own_[0]), bytes(own_[1])};
    step();
    moves_ = {true, true};
  }
  void step() override {
    for (std::size_t b = 0; b < 2; ++b) {
      if (!moves_[b]) continue;
      velocity_[b] = momentum_ * velocity_[b] + *reinterpret_cast<const float*>(gradients_[b].data());
      weights_[b] -= rate_ * velocity_[b];
    }
  }
  OptimizerOptions optimizer_options() const override { return {rate_, Hash64::of(text(rate_))}; }
  std::optional<SgdRule> sgd_rule() const override { return SgdRule{.lr = rate_, .momentum = momentum_}; }
  void set_rate(float rate) { rate_ = rate; }
  void set_lr_factor(double) override {}

  std::span<std::byte> parameters(int bucket) override { return bytes(weights_[static_cast<std::size_t>(bucket)]); }
  std::vector<std::span<std::byte>> weights() override { return {parameters(0), parameters(1)}; }
  std::string model_description() const override { return "two numbers"; }
  std::string optimizer_description() const override { return "sgd"; }
  std::string optimizer_state() override {
    return momentum_ == 0 ? std::string()
                          : std::string(reinterpret_cast<const char*>(velocity_.data()), sizeof velocity_);
  }
  void set_optimizer_state(const std::string& state) override {
    if (state.size() == sizeof velocity_) std::memcpy(velocity_.data(), state.data(), sizeof velocity_);
  }
  std::vector<Buffer> optimizer_arrays() override {
    if (momentum_ == 0) return {};
    return {{DataType::float32, bytes(velocity_[0])}, {DataType::float32, bytes(velocity_[1])}};
  }
  std::string library() const override { return "none"; }
  ReplicaChecksum checksum() override { return {Hash64::of(std::as_bytes(std::span(weights_))), 0}; }
  std::string save() override { return {}; }
  void load(const std::string&) override {}

  float& number(std::size_t i) { return weights_[i]; }
  std::vector<float> numbers() const { return {weights_.begin(), weights_.end()}; }
  std::vector<float> velocities() const { return {velocity_.begin(), velocity_.end()}; }

 private:
  static std::span<std::byte> bytes(float& number) { return std::as_writable_bytes(std::span(&number, 1)); }

  const std::vector<BucketSpec> buckets_{{DataType::float32, 1}, {DataType::float32, 1}};
  const float momentum_;
  float rate_ = 1;
  std::array<float, 2> weights_{};
  std::array<float, 2> velocity_{};
  std::array<bool, 2> moves_{true, true};  // in the step under way
  std::array<float, 2> own_{};             // gradients
  std::vector<std::span<std::byte>> gradients_;
  int next_ = 0;  // bucket of the backward pass
  std::function<void(int)> ready_;
};

}  // namespace stretto
