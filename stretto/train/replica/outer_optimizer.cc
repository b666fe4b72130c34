#include "stretto/train/replica/outer_optimizer.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/train/replica/flat_math.h"

namespace stretto {

OuterOptimizer::OuterOptimizer(std::vector<BucketSpec> buckets, OuterOptimizerOptions options)
    : buckets_(std::move(buckets)), options_(options) {
  if (!(options.momentum >= 0 && options.momentum < 1)) {
    throw UsageError(text("outer-momentum ", options.momentum, ": expected a number from 0 to below 1, such as 0.9"));
  }
  if (!(options.lr > 0 && std::isfinite(static_cast<float>(options.lr)))) {
    throw UsageError(text("outer-lr ", options.lr, ": expected a number above 0, such as 0.7"));
  }
  for (const BucketSpec& bucket : buckets_) velocity_.emplace_back(bucket.count * size_of(bucket.type));
}

void OuterOptimizer::step(int bucket, std::span<std::byte> model, std::span<const std::byte> sum, double divisor) {
  const auto b = static_cast<std::size_t>(bucket);
  nesterov_step(buckets_[b].type, model, velocity_[b], sum, divisor, options_.lr, options_.momentum);
}

std::string OuterOptimizer::state() const {
  std::string out;
  for (const auto& bucket : velocity_) out.append(reinterpret_cast<const char*>(bucket.data()), bucket.size());
  return out;
}

void OuterOptimizer::set_state(const std::string& state) {
  if (state.size() != bytes()) {
    throw Failure({Errc::bad_input, text("outer momentum of ", state.size(), " bytes, expected ", bytes())});
  }
  const char* from = state.data();
  for (auto& bucket : velocity_) {
    std::memcpy(bucket.data(), from, bucket.size());
    from += bucket.size();
  }
}

std::uint64_t OuterOptimizer::bytes() const {
  std::uint64_t all = 0;
  for (const auto& bucket : velocity_) all += bucket.size();
  return all;
}

}  // namespace stretto
