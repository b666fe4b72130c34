#include "stretto/train/recipes/grid_model.h"

#include <algorithm>
#include <cstring>

#include "stretto/base/error.h"
#include "stretto/train/replica/flat_math.h"

namespace stretto {

GridModel::GridModel(Replica& replica, bool momentum) : replica_(replica), buckets_(replica.parameter_buckets()) {
  if (!momentum || !has_momentum(replica)) return;
  for (const BucketSpec& parameters : replica.parameter_buckets()) {
    const std::span momenta = std::span(buckets_).subspan(replica.parameter_buckets().size());
    const auto same = std::ranges::find(momenta, parameters.type, &BucketSpec::type);
    same == momenta.end() ? buckets_.push_back(parameters) : void(same->count += parameters.count);
  }
}

bool GridModel::has_momentum(const Replica& replica) {
  const auto rule = replica.sgd_rule();
  return rule && rule->momentum != 0;
}

void GridModel::look() {
  if (buckets_.size() == replica_.parameter_buckets().size()) return;
  momentum_ = replica_.optimizer_arrays();
  const std::span momenta = std::span(buckets_).subspan(replica_.parameter_buckets().size());
  for (const BucketSpec& bucket : momenta) {
    std::uint64_t bytes = 0;
    for (const auto& array : momentum_) bytes += array.type == bucket.type ? array.memory.size() : 0;
    STRETTO_CHECK(bytes <= bucket.count * size_of(bucket.type), bytes, " bytes of momentum for ", bucket.count,
                  " parameters");
  }
}

void GridModel::for_each_piece(std::size_t bucket, std::uint64_t begin, std::uint64_t count,
                               FunctionRef<void(std::span<std::byte> mine, std::size_t behind)> run) {
  const DataType type = buckets_[bucket].type;
  const std::size_t from = begin * size_of(type), to = from + count * size_of(type);
  if (bucket < replica_.parameter_buckets().size()) {
    return run(replica_.parameters(static_cast<int>(bucket)).subspan(from, to - from), 0);
  }
  std::size_t at = 0;
  for (const auto& array : momentum_) {
    if (array.type != type) continue;
    const std::size_t first = std::max(at, from), last = std::min(at + array.memory.size(), to);
    if (first < last) run(array.memory.subspan(first - at, last - first), first - from);
    at += array.memory.size();
  }
}

void GridModel::move(const GridSlice& slice, ElasticUpdate update, double alpha) {
  if (update == ElasticUpdate::carry && slice.brought == nullptr) return;
  const DataType type = buckets_[slice.bucket].type;
  const double share = alpha / slice.members;
  for_each_piece(slice.bucket, slice.offset, slice.count, [&](std::span<std::byte> mine, std::size_t behind) {
    if (update == ElasticUpdate::paper) scale(type, mine, mine, 1 - alpha);
    add_scaled(type, mine, {slice.sum + behind, mine.size()}, share);
    if (update == ElasticUpdate::carry) add_scaled(type, mine, {slice.brought + behind, mine.size()}, -alpha);
  });
}

void GridModel::copy_to(Contribution& copy) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const std::span<std::byte> to = copy.bucket(static_cast<int>(b));
    std::size_t end = 0;
    for_each_piece(b, 0, buckets_[b].count, [&](std::span<std::byte> mine, std::size_t behind) {
      std::memcpy(to.data() + behind, mine.data(), mine.size());
      end = behind + mine.size();
    });
    std::memset(to.data() + end, 0, to.size() - end);
  }
}

}  // namespace stretto
