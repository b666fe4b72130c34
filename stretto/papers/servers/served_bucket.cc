#include "stretto/papers/servers/served_bucket.h"

#include <utility>

#include "stretto/base/error.h"
#include "stretto/kernel/combine.h"

namespace stretto {

ServedBucket::ServedBucket(int bucket, BucketSpec spec, int ranks, Shard shard, ServedBucketHost& host,
                           const ServerUpdate& update)
    : bucket_(bucket),
      spec_(spec),
      shard_(std::move(shard)),
      host_(host),
      update_(update),
      values_(1),
      gradients_(static_cast<std::size_t>(ranks)) {}

void ServedBucket::start(std::span<const std::byte> value) {
  STRETTO_CHECK(value.size() == num_bytes(), "bucket ", bucket_, " begins with ", value.size(), " bytes");
  values_[0].memory.assign(value.begin(), value.end());
}

void ServedBucket::act() {
  while (const auto action = shard_.next()) {
    switch (action->kind) {
      case ShardAction::Kind::apply: apply(*action); break;
      case ShardAction::Kind::drop: host_.release(bucket_, action->rank, std::nullopt); break;
      case ShardAction::Kind::commit: host_.commit(*action); break;
      case ShardAction::Kind::answer: {
        Value& value = values_[current_];
        ++value.pins;
        host_.answer(bucket_, *action, value.memory, static_cast<int>(current_));
        break;
      }
    }
  }
}

/// Sums into the gradient of the first rank that has one.
void ServedBucket::apply(const ShardAction& action) {
  std::byte* sum = nullptr;
  int gradients = 0;
  for (const int rank : action.ranks) {
    const Gradient& gradient = gradients_[static_cast<std::size_t>(rank)];
    if (!gradient.there) continue;
    if (gradients++ == 0) {
      sum = gradient.data;
    } else {
      reduce(spec_.type, ReduceOp::sum, sum, sum, gradient.data, spec_.count);
    }
  }
  if (sum != nullptr || gradients == 0) {
    const std::size_t to = writable();
    update_(bucket_, values_[to].memory, values_[current_].memory, {sum, sum == nullptr ? 0 : num_bytes()}, gradients);
    current_ = to;
  }
  for (const int rank : action.ranks) host_.release(bucket_, rank, action.version);
}

/// Memory that is not being sent: that of the current value if possible.
std::size_t ServedBucket::writable() {
  if (values_[current_].pins == 0) return current_;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (values_[i].pins == 0) return i;
  }
  values_.emplace_back().memory.resize(num_bytes());
  return values_.size() - 1;
}

}  // namespace stretto
