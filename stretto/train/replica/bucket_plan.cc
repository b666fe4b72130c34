#include "stretto/train/replica/bucket_plan.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace stretto {
namespace {

std::string_view layer_of(const ParameterSpec& parameter) {
  return std::string_view(parameter.name).substr(0, parameter.name.rfind('.') + 1);
}

}  // namespace

BucketPlan plan_buckets(std::span<const ParameterSpec> parameters, std::uint64_t cap_bytes, bool by_layer,
                        std::uint64_t alignment) {
  BucketPlan plan;
  plan.placements.resize(parameters.size());
  std::map<DataType, int> open;  // the bucket of each type that still takes parameters
  std::string_view layer;        // whose parameters they take, if `by_layer`
  for (std::size_t i = parameters.size(); i-- > 0;) {
    const ParameterSpec& parameter = parameters[i];
    if (!parameter.trained) continue;
    if (by_layer && std::exchange(layer, layer_of(parameter)) != layer_of(parameter)) open.clear();
    int& bucket = open.try_emplace(parameter.type, -1).first->second;
    const std::uint64_t line = std::max<std::uint64_t>(alignment / size_of(parameter.type), 1);
    const auto place_in = [&](const BucketSpec& spec) { return (spec.count + line - 1) / line * line; };
    const auto bytes_with = [&](const BucketSpec& spec) {
      return (place_in(spec) + parameter.count) * size_of(parameter.type);
    };
    if (bucket < 0 || (plan.buckets[static_cast<std::size_t>(bucket)].count > 0 &&
                       bytes_with(plan.buckets[static_cast<std::size_t>(bucket)]) > cap_bytes)) {
      bucket = static_cast<int>(plan.buckets.size());
      plan.buckets.push_back({.type = parameter.type, .count = 0});
    }
    BucketSpec& spec = plan.buckets[static_cast<std::size_t>(bucket)];
    plan.placements[i] = {.bucket = bucket, .offset = place_in(spec)};
    spec.count = place_in(spec) + parameter.count;
  }
  return plan;
}

}  // namespace stretto
