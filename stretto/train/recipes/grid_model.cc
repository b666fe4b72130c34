#include "stretto/train/recipes/grid_model.h"

#include <algorithm>
#include <cstring>

#include "stretto/base/error.h"
#include "stretto/train/recipes/momentum_exchange.h"
#include "stretto/train/replica/flat_math.h"

namespace stretto {

void move_towards_mean(DataType type, std::span<std::byte> mine, const GridSlice& slice, std::size_t behind,
                       ElasticUpdate update, double alpha) {
  if (update == ElasticUpdate::carry && slice.brought == nullptr) return;
  if (update == ElasticUpdate::paper) scale(type, mine, mine, 1 - alpha);
  add_scaled(type, mine, {slice.sum + behind, mine.size()}, alpha / slice.members);
  if (update == ElasticUpdate::carry) add_scaled(type, mine, {slice.brought + behind, mine.size()}, -alpha);
}

GridModel::GridModel(Replica& replica, Momentum momentum)
    : replica_(replica), kind_(momentum), buckets_(replica.parameter_buckets()) {
  if (momentum == Momentum::exchanged && !has_momentum(replica)) {
    throw UsageError("momentum-exchange yes: expected SGD with momentum");
  }
  if (momentum == Momentum::local || !has_momentum(replica)) return;
  for (const BucketSpec& parameters : replica.parameter_buckets()) {
    const std::span momenta = std::span(buckets_).subspan(replica.parameter_buckets().size());
    const auto same = std::ranges::find(momenta, parameters.type, &BucketSpec::type);
    if (momentum == Momentum::exchanged && parameters.type != DataType::float32) {
      throw UsageError(text("momentum-exchange with parameters of ", name_of(parameters.type), ": expected float32"));
    }
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
  const bool is_momentum = slice.bucket >= replica_.parameter_buckets().size();
  if (is_momentum && kind_ == Momentum::exchanged) {
    if (slice.brought != nullptr) exchange(slice);
    return;
  }
  for_each_piece(slice.bucket, slice.offset, slice.count, [&](std::span<std::byte> mine, std::size_t behind) {
    move_towards_mean(buckets_[slice.bucket].type, mine, slice, behind, update, alpha);
  });
}

void GridModel::exchange(const GridSlice& slice) {
  const auto floats = [&slice](const std::byte* at) {
    return std::span(reinterpret_cast<const float*>(at), static_cast<std::size_t>(slice.count));
  };
  // All nodes of the line draw the same.
  const std::uint64_t line = random_bits(slice.round, static_cast<std::uint64_t>(slice.dimension), slice.bucket);
  const std::vector<double> direction = random_direction(Random(line, slice.offset), slice.count);
  const double turn = turn_about_mean(floats(slice.brought), floats(slice.sum), slice.members, direction);
  for_each_piece(slice.bucket, slice.offset, slice.count, [&](std::span<std::byte> mine, std::size_t behind) {
    const auto numbers = std::span(reinterpret_cast<float*>(mine.data()), mine.size() / sizeof(float));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] += static_cast<float>(turn * direction[behind / sizeof(float) + i]);
    }
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
