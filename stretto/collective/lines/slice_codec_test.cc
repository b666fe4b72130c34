#include "stretto/collective/lines/slice_codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>

#include "stretto/base/random.h"
#include "stretto/collective/schedules/part.h"

namespace stretto {
namespace {

constexpr int kNodes = 3;
constexpr std::uint16_t kContribution = 0, kMean = 2;  // of bucket 0

const std::vector<BucketSpec> kSliceModel{{DataType::float32, 3000}, {DataType::float32, 2}};

std::vector<float> near(std::uint64_t seed, std::size_t count, double apart) {
  Random random(seed);
  std::vector<float> out(count);
  for (float& number : out) number = static_cast<float>(1 + apart * random.normal());
  return out;
}

/// From node 1 to node 2, of a line of three.
class SliceLink {
 public:
  explicit SliceLink(Compression compression)
      : from_(kSliceModel, 1, kNodes, compression), to_(kSliceModel, 2, kNodes, compression) {}

  /// What arrives, and is `bytes` long. Not `wanted`: it comes too late.
  std::vector<float> send(std::uint16_t channel, const std::vector<float>& numbers, std::size_t& bytes,
                          bool wanted = true) {
    const auto body = std::as_bytes(std::span(numbers));
    std::vector<std::byte> encoded(body.size());
    bytes = from_.encode(2, channel, body, encoded.data());
    std::vector<float> out(bytes == 0 ? numbers : std::vector<float>(numbers.size()));
    const bool is_itself = bytes == 0;
    if (is_itself) bytes = body.size();
    if (is_itself && !to_.sees_all()) return out;
    const auto comes = is_itself ? body : std::span<const std::byte>(encoded).first(bytes);
    const auto to = is_itself || !wanted ? std::span<std::byte>() : std::as_writable_bytes(std::span(out));
    EXPECT_TRUE(to_.decode(1, channel, comes, to));
    return wanted ? out : std::vector<float>();
  }
  SliceCodec& to() { return to_; }

 private:
  SliceCodec from_, to_;
};

double most_off(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(static_cast<double>(a[i] - b[i])));
  return most;
}

TEST(SliceCodec, SendsTheFirstSliceWholeAndThenDifferences) {
  SliceLink link(Compression::int8);
  std::size_t bytes = 0;
  for (const std::uint16_t channel : {kContribution, kMean}) {
    const std::vector<float> first = near(1, 1000, 1), second = near(2, 1000, 1);
    EXPECT_EQ(link.send(channel, first, bytes), first);
    EXPECT_EQ(bytes, 4000u);
    EXPECT_LE(most_off(link.send(channel, second, bytes), second), 0.05);
    EXPECT_EQ(bytes, 1016u);
    for (int again = 0; again < 3; ++again) link.send(channel, second, bytes);
    EXPECT_LE(most_off(link.send(channel, second, bytes), second), 1e-6);
  }
}

TEST(SliceCodec, GoesOnBehindASliceThatComesTooLate) {
  SliceLink link(Compression::int8);
  std::size_t bytes = 0;
  link.send(kContribution, near(1, 1000, 1), bytes);
  const std::vector<float> late = near(2, 1000, 1);
  link.send(kContribution, late, bytes, false);
  EXPECT_LE(most_off(link.send(kContribution, late, bytes), late), 1e-3);
  EXPECT_EQ(bytes, 1016u);
}

TEST(SliceCodec, AFirstSliceThatIsLateIsKnown) {
  SliceLink link(Compression::int8);
  std::size_t bytes = 0;
  const std::vector<float> numbers = near(1, 1000, 1);
  link.send(kMean, numbers, bytes, false);
  EXPECT_EQ(link.send(kMean, numbers, bytes), numbers);
  EXPECT_EQ(bytes, 1016u);
}

TEST(SliceCodec, WhatIsNotFiniteGoesWhole) {
  SliceLink link(Compression::int8);
  std::size_t bytes = 0;
  std::vector<float> numbers = near(1, 1000, 1);
  link.send(kContribution, numbers, bytes);
  numbers[999] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(link.send(kContribution, numbers, bytes), numbers);
  EXPECT_EQ(bytes, 4000u);
  const std::vector<float> next = near(3, 1000, 1);
  EXPECT_EQ(link.send(kContribution, next, bytes), next) << "nor is the distance from it";
  link.send(kContribution, next, bytes);
  EXPECT_EQ(bytes, 1016u);
}

TEST(SliceCodec, ASliceOfOneNumberGoesAsItIs) {
  SliceLink link(Compression::int8);
  std::size_t bytes = 0;
  for (const float number : {1.0f, 2.0f, 3.0f}) {
    EXPECT_EQ(link.send(kMean + 1, {number}, bytes), std::vector<float>{number});
    EXPECT_EQ(bytes, 4u);
  }
}

TEST(SliceCodec, LeavesZerosOutWhereThatIsShorter) {
  SliceLink link(Compression::zeros);
  std::size_t bytes = 0;
  std::vector<float> numbers = near(1, 1000, 1);
  EXPECT_EQ(link.send(kContribution, numbers, bytes), numbers);
  EXPECT_EQ(bytes, 4000u);
  std::fill_n(numbers.begin(), 900, 0.0f);
  EXPECT_EQ(link.send(kContribution, numbers, bytes), numbers);
  EXPECT_LT(bytes, 560u);
}

TEST(SliceCodec, RefusesWhatNobodyHasEncoded) {
  for (const Compression compression : {Compression::none, Compression::zeros, Compression::int8}) {
    SliceLink link(compression);
    std::size_t bytes = 0;
    link.send(kContribution, near(1, 1000, 1), bytes);
    std::vector<std::byte> to(4000);
    EXPECT_FALSE(link.to().decode(1, kContribution, std::vector<std::byte>(777), to));
  }
  EXPECT_FALSE(SliceLink(Compression::int8).to().decode(1, kContribution, std::vector<std::byte>(1016), {}))
      << "a difference from nothing";
}

TEST(SliceCodec, TakesMemoryForWhatLinksKnow) {
  EXPECT_EQ(SliceCodec(kSliceModel, 0, kNodes, Compression::zeros).bytes(), 0u);
  const std::vector<BucketSpec> model{{DataType::float32, 3000}};
  EXPECT_EQ(SliceCodec(model, 0, kNodes, Compression::int8).bytes(), 4 * 2 * 1000 * sizeof(float));
}

}  // namespace
}  // namespace stretto
