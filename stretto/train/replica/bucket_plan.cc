#include "stretto/train/replica/bucket_plan.h"

#include <array>

namespace stretto {

BucketPlan plan_buckets(std::span<const ParameterSpec> parameters, std::uint64_t cap_bytes) {
  BucketPlan plan;
  plan.placements.resize(parameters.size());
  std::array<int, 4> open{-1, -1, -1, -1};  // the bucket of each type that still takes parameters
  for (std::size_t i = parameters.size(); i-- > 0;) {
    const ParameterSpec& parameter = parameters[i];
    if (!parameter.trained) continue;
    int& bucket = open[static_cast<std::size_t>(parameter.type)];
    const auto bytes_with = [&](const BucketSpec& spec) {
      return (spec.count + parameter.count) * size_of(parameter.type);
    };
    if (bucket < 0 || (plan.buckets[static_cast<std::size_t>(bucket)].count > 0 &&
                       bytes_with(plan.buckets[static_cast<std::size_t>(bucket)]) > cap_bytes)) {
      bucket = static_cast<int>(plan.buckets.size());
      plan.buckets.push_back({.type = parameter.type, .count = 0});
    }
    BucketSpec& spec = plan.buckets[static_cast<std::size_t>(bucket)];
    plan.placements[i] = {.bucket = bucket, .offset = spec.count};
    spec.count += parameter.count;
  }
  return plan;
}

}  // namespace stretto
