#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stretto/collective/lines/line_options.h"
#include "stretto/kernel/bucket.h"

namespace stretto {

/// The form in which a node of a line sends slices and means, and what it has made of those that came: BodyCodec for
/// members of a line in the place of ranks. Channel i is that of a contribution's bucket i, and channel buckets + i
/// that of a mean's.
///
/// Compression::int8: the numbers that a link has brought to the other side are known on both. What is sent next is its
/// difference from those, rounded, which both add; the first time, and where it is not finite, the numbers themselves.
/// So the other side decodes each body that comes, also one that is too late to be used. Memory: 4(p − 1)/p models, as
/// links come into use. Not thread-safe.
class SliceCodec {
 public:
  /// `buckets`: of a model, of float32 alone with Compression::int8.
  SliceCodec(std::span<const BucketSpec> buckets, int own, int members, Compression compression);

  std::size_t encode(int member, std::uint16_t channel, std::span<const std::byte> body, std::byte* to);
  [[nodiscard]] bool decode(int member, std::uint16_t channel, std::span<const std::byte> body,
                            std::span<std::byte> to);
  bool sees_all() const { return compression_ == Compression::int8; }
  /// Of memory, once all links are in use.
  std::uint64_t bytes() const;

 private:
  std::size_t link(int member, std::uint16_t channel) const;
  /// Elements of what comes on a channel, before it was encoded.
  std::uint64_t count_of(int member, std::uint16_t channel) const;

  const std::vector<BucketSpec> buckets_;
  const int own_, members_;
  const Compression compression_;
  std::vector<std::vector<float>> sent_, came_;  // by link; what both sides know
};

}  // namespace stretto
