#include "stretto/kernel/combine.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "stretto/base/error.h"
#include "stretto/kernel/kernels.h"

namespace stretto {

namespace {

template <class T>
T neutral(ReduceOp op) {
  using Limits = std::numeric_limits<T>;
  switch (op) {
    case ReduceOp::min: return Limits::has_infinity ? Limits::infinity() : Limits::max();
    case ReduceOp::max: return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    case ReduceOp::bit_and: return static_cast<T>(-1);
    case ReduceOp::sum: break;
  }
  return Limits::has_infinity ? static_cast<T>(-0.0) : T{};
}

template <class T>
void fill(std::byte* dst, T element, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) std::memcpy(dst + i * sizeof element, &element, sizeof element);
}

}  // namespace

void reduce(DataType type, ReduceOp op, std::byte* dst, const std::byte* first, const std::byte* second,
            std::uint64_t count) {
  if (dst == nullptr || first == nullptr || second == nullptr) return;
  const std::byte* const operands[] = {first, second};
  kernels_in_use().function(type, op, Kernels::Shape::pair)(dst, operands, 2, count * size_of(type));
}

void fill_neutral(DataType type, ReduceOp op, std::byte* dst, std::uint64_t count) {
  switch (type) {
    case DataType::float32: return fill(dst, neutral<float>(op), count);
    case DataType::float64: return fill(dst, neutral<double>(op), count);
    case DataType::int32: return fill(dst, neutral<std::int32_t>(op), count);
    case DataType::int64: return fill(dst, neutral<std::int64_t>(op), count);
    case DataType::bfloat16: return fill(dst, to_bfloat16(neutral<float>(op)), count);
    case DataType::float16: return fill(dst, to_float16(neutral<float>(op)), count);
  }
}

namespace {

constexpr std::uint64_t kLine = Kernels::kLine;
/// Bytes of intermediate values worked on at a time: they should lie in a first-level cache, together with a block of
/// some sources.
constexpr std::uint64_t kIntermediateBytes = 16 << 10;
constexpr std::uint64_t kMaxBlock = 4096;
static_assert(kIntermediateBytes / Combination::kMaxIntermediates >= kLine);

std::uint64_t block_of(int num_intermediates) {
  if (num_intermediates == 0) return kMaxBlock;
  return std::min(kMaxBlock, kIntermediateBytes / static_cast<std::uint64_t>(num_intermediates) / kLine * kLine);
}

std::uint64_t bytes_to_line(const std::byte* at) {
  return (kLine - reinterpret_cast<std::uintptr_t>(at) % kLine) % kLine;
}

}  // namespace

void combine(const Kernels& kernels, const Combination& combination, DataType type, ReduceOp op, std::byte* dst,
             std::span<const std::byte* const> sources, std::uint64_t count, Stores stores) {
  if (static_cast<std::uint64_t>(combination.num_sources()) > sources.size()) {
    throw UsageError(text("a combination of ", combination.num_sources(), " sources, given ", sources.size()));
  }
  check_reduction(type, op);
  const std::uint64_t bytes = count * size_of(type);
  if (combination.steps().empty()) {
    return copy_bytes(kernels, dst, sources[combination.program().front()], bytes, stores);
  }
  const std::uint64_t block = block_of(combination.num_intermediates());
  const std::uint64_t to_line = bytes_to_line(dst);
  const bool streams = stores == Stores::streaming && to_line % size_of(type) == 0;
  alignas(kLine) std::byte intermediates[kIntermediateBytes];
  const auto intermediate = [&](Combination::Place place) {
    return intermediates + static_cast<std::uint64_t>(place - Combination::kIntermediate) * block;
  };

  std::uint64_t length = 0;
  for (std::uint64_t at = 0; at < bytes; at += length) {
    length = std::min(block, bytes - at);
    // Bytes before the first whole cache line and after the last are not streamed.
    if (streams && at == 0 && to_line > 0) {
      length = std::min(length, to_line);
    } else if (streams && length > kLine) {
      length -= length % kLine;
    }
    const bool stream = streams && length % kLine == 0;
    for (const auto& step : combination.steps()) {
      const std::byte* operands[Combination::kMaxOperands];
      int num_operands = 0;
      for (const auto place : combination.operands_of(step)) {
        const bool is_source = place < Combination::kIntermediate;
        operands[num_operands++] = is_source ? sources[place] + at : intermediate(place);
      }
      const bool is_last = step.into == Combination::kResult;
      const auto function =
          is_last && stream ? kernels.streaming_function(type, op, step.shape) : kernels.function(type, op, step.shape);
      function(is_last ? dst + at : intermediate(step.into), operands, num_operands, length);
    }
  }
  if (streams) kernels.fence();
}

void copy_bytes(const Kernels& kernels, std::byte* dst, const std::byte* src, std::uint64_t bytes, Stores stores) {
  if (dst == src || bytes == 0) return;
  const std::uint64_t head = std::min(bytes, bytes_to_line(dst));
  const std::uint64_t lines = stores == Stores::streaming ? (bytes - head) / kLine * kLine : 0;
  if (lines == 0) {
    std::memcpy(dst, src, bytes);
    return;
  }
  std::memcpy(dst, src, head);
  kernels.copy_streaming(dst + head, src + head, lines);
  std::memcpy(dst + head + lines, src + head + lines, bytes - head - lines);
  kernels.fence();
}

void combine(const Combination& combination, DataType type, ReduceOp op, std::byte* dst,
             std::span<const std::byte* const> sources, std::uint64_t count, Stores stores) {
  combine(kernels_in_use(), combination, type, op, dst, sources, count, stores);
}

void copy_bytes(std::byte* dst, const std::byte* src, std::uint64_t bytes, Stores stores) {
  copy_bytes(kernels_in_use(), dst, src, bytes, stores);
}

}  // namespace stretto
