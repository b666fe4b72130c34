#include "stretto/collective/lines/slice_codec.h"

#include <algorithm>

#include "stretto/collective/schedules/part.h"
#include "stretto/kernel/compress.h"

namespace stretto {
namespace {

std::span<const float> floats(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

}  // namespace

SliceCodec::SliceCodec(std::span<const BucketSpec> buckets, int own, int members, Compression compression)
    : buckets_(buckets.begin(), buckets.end()), own_(own), members_(members), compression_(compression) {
  if (!sees_all()) return;
  sent_.resize(static_cast<std::size_t>(members) * 2 * buckets.size());
  came_.resize(sent_.size());
}

std::size_t SliceCodec::link(int member, std::uint16_t channel) const {
  return static_cast<std::size_t>(member) * 2 * buckets_.size() + channel;
}

std::uint64_t SliceCodec::count_of(int member, std::uint16_t channel) const {
  const bool is_mean = channel >= buckets_.size();
  return part(buckets_[channel % buckets_.size()].count, is_mean ? member : own_, members_).count();
}

std::size_t SliceCodec::encode(int member, std::uint16_t channel, std::span<const std::byte> body, std::byte* to) {
  if (body.data() == nullptr || compression_ == Compression::none) return 0;
  if (compression_ == Compression::zeros) {
    return leave_zeros_out(size_of(buckets_[channel % buckets_.size()].type), body, to);
  }
  const std::span<const float> numbers = floats(body);
  const std::size_t bytes = difference_bytes(numbers.size());
  std::vector<float>& known = sent_[link(member, channel)];
  if (!known.empty() && bytes < body.size() && take_difference(numbers, known, to)) return bytes;
  known.assign(numbers.begin(), numbers.end());
  return 0;
}

bool SliceCodec::decode(int member, std::uint16_t channel, std::span<const std::byte> body, std::span<std::byte> to) {
  if (compression_ == Compression::none) return false;
  if (compression_ == Compression::zeros) {
    return put_zeros_back(size_of(buckets_[channel % buckets_.size()].type), body, to);
  }
  std::vector<float>& known = came_[link(member, channel)];
  if (body.size() == count_of(member, channel) * sizeof(float)) {
    known.assign(floats(body).begin(), floats(body).end());
    return true;
  }
  if (!add_difference(body, known)) return false;
  if (!to.empty()) std::ranges::copy(std::as_bytes(std::span(known)), to.begin());
  return true;
}

std::uint64_t SliceCodec::bytes() const {
  if (!sees_all()) return 0;
  std::uint64_t numbers = 0;
  for (int member = 0; member < members_; ++member) {
    for (std::size_t i = 0; i < 2 * buckets_.size() && member != own_; ++i) {
      // What is sent on one channel has the size of what comes on the other.
      numbers += 2 * count_of(member, static_cast<std::uint16_t>(i));
    }
  }
  return numbers * sizeof(float);
}

}  // namespace stretto
