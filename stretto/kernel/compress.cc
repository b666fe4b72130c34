#include "stretto/kernel/compress.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace stretto {
namespace {

constexpr std::size_t kChunk = 4096;      // elements
constexpr std::size_t kWord = 64;         // elements of a word of bits
constexpr std::size_t kSample = 16;       // so many elements in a row are looked at, and as many times in a chunk
constexpr std::size_t kScaled = 256;      // numbers that have a scale in common
constexpr std::int32_t kMostSteps = 127;  // from 0

template <class Element>
std::size_t zeros_among(const Element* elements, std::size_t count) {
  Element zeros = 0;  // of a chunk at most, which fits: a loop of vectors
  for (std::size_t i = 0; i < count; ++i) zeros += elements[i] == 0 ? Element{1} : Element{0};
  return zeros;
}

/// Elements of a chunk that are not zero; all of them where it is to stay as it is.
template <class Element>
std::uint32_t kept_of(const Element* elements, std::size_t count) {
  if (count == kChunk) {
    std::size_t seen = 0;
    for (std::size_t i = 0; i < kSample; ++i) seen += zeros_among(elements + i * (kChunk / kSample), kSample);
    if (seen * 3 < kSample * kSample) return kChunk;
  }
  const std::size_t zeros = zeros_among(elements, count);
  return static_cast<std::uint32_t>(zeros * 5 > count * 2 ? count - zeros : count);
}

/// Bytes of a chunk behind the number of elements that are kept.
template <class Element>
std::size_t bytes_behind(std::size_t kept, std::size_t count) {
  return kept * sizeof(Element) + (kept == count ? 0 : (count + kWord - 1) / kWord * sizeof(std::uint64_t));
}

/// Bit i: element i of a word is not zero.
template <class Element>
std::uint64_t bits_of_word(const Element* elements) {
  constexpr std::uint64_t kGather = 0x0102040810204080;  // the bit of byte i of a factor comes to bit 56 + i
  std::array<std::uint8_t, kWord> flags;
  for (std::size_t i = 0; i < kWord; ++i) flags[i] = elements[i] != 0 ? 1 : 0;
  std::uint64_t bits = 0;
  for (std::size_t byte = 0; byte < kWord / 8; ++byte) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, &flags[8 * byte], sizeof eight);
    bits |= (eight * kGather >> 56) << (8 * byte);
  }
  return bits;
}

template <class Element>
std::byte* write_chunk(const Element* elements, std::size_t count, std::uint32_t kept, std::byte* to) {
  std::memcpy(to, &kept, sizeof kept);
  to += sizeof kept;
  if (kept == count) {
    std::memcpy(to, elements, count * sizeof(Element));
    return to + count * sizeof(Element);
  }
  std::byte* values = to + (count + kWord - 1) / kWord * sizeof(std::uint64_t);
  for (std::size_t first = 0; first < count; first += kWord) {
    const std::size_t here = std::min(kWord, count - first);
    std::uint64_t bits = 0;
    if (here == kWord) bits = bits_of_word(elements + first);
    for (std::size_t i = 0; here < kWord && i < here; ++i) bits |= std::uint64_t{elements[first + i] != 0} << i;
    std::memcpy(to, &bits, sizeof bits);
    to += sizeof bits;
    for (; bits != 0; bits &= bits - 1) {
      std::memcpy(values, &elements[first + static_cast<std::size_t>(std::countr_zero(bits))], sizeof(Element));
      values += sizeof(Element);
    }
  }
  return values;
}

template <class Element>
std::size_t leave_out(std::span<const std::byte> numbers, std::byte* to) {
  const auto* const elements = reinterpret_cast<const Element*>(numbers.data());
  const std::size_t count = numbers.size() / sizeof(Element);
  std::size_t bytes = 0;
  std::vector<std::uint32_t> kept;  // by chunk
  for (std::size_t first = 0; first < count; first += kChunk) {
    const std::size_t here = std::min(kChunk, count - first);
    kept.push_back(kept_of(elements + first, here));
    bytes += sizeof(std::uint32_t) + bytes_behind<Element>(kept.back(), here);
  }
  if (bytes >= numbers.size()) return 0;
  for (std::size_t chunk = 0; chunk < kept.size(); ++chunk) {
    const std::size_t first = chunk * kChunk;
    to = write_chunk(elements + first, std::min(kChunk, count - first), kept[chunk], to);
  }
  return bytes;
}

/// Reads a chunk, and moves `coded` behind it.
template <class Element>
bool read_chunk(std::span<const std::byte>& coded, std::byte* to, std::size_t count) {
  std::uint32_t kept = 0;
  if (coded.size() < sizeof kept) return false;
  std::memcpy(&kept, coded.data(), sizeof kept);
  coded = coded.subspan(sizeof kept);
  if (kept > count || coded.size() < bytes_behind<Element>(kept, count)) return false;
  const std::byte* bits_at = coded.data();
  coded = coded.subspan(bytes_behind<Element>(kept, count));
  if (kept == count) {
    std::memcpy(to, bits_at, count * sizeof(Element));
    return true;
  }
  const std::byte* values = bits_at + (count + kWord - 1) / kWord * sizeof(std::uint64_t);
  std::memset(to, 0, count * sizeof(Element));
  std::size_t left = kept;
  for (std::size_t first = 0; first < count; first += kWord, bits_at += sizeof(std::uint64_t)) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, bits_at, sizeof bits);
    const auto set = static_cast<std::size_t>(std::popcount(bits));
    if (set > left || (count - first < kWord && bits >> (count - first) != 0)) return false;
    left -= set;
    for (; bits != 0; bits &= bits - 1, values += sizeof(Element)) {
      const std::size_t at = first + static_cast<std::size_t>(std::countr_zero(bits));
      std::memcpy(to + at * sizeof(Element), values, sizeof(Element));
    }
  }
  return left == 0;
}

template <class Element>
bool put_back(std::span<const std::byte> coded, std::span<std::byte> numbers) {
  const std::size_t count = numbers.size() / sizeof(Element);
  for (std::size_t first = 0; first < count; first += kChunk) {
    const std::size_t here = std::min(kChunk, count - first);
    if (!read_chunk<Element>(coded, numbers.data() + first * sizeof(Element), here)) return false;
  }
  return coded.empty();
}

}  // namespace

std::size_t leave_zeros_out(std::size_t element_bytes, std::span<const std::byte> numbers, std::byte* to) {
  switch (element_bytes) {
    case 2: return leave_out<std::uint16_t>(numbers, to);
    case 4: return leave_out<std::uint32_t>(numbers, to);
    default: return leave_out<std::uint64_t>(numbers, to);
  }
}

bool put_zeros_back(std::size_t element_bytes, std::span<const std::byte> coded, std::span<std::byte> numbers) {
  switch (element_bytes) {
    case 2: return put_back<std::uint16_t>(coded, numbers);
    case 4: return put_back<std::uint32_t>(coded, numbers);
    default: return put_back<std::uint64_t>(coded, numbers);
  }
}

bool take_difference(std::span<const float> numbers, std::span<float> known, std::byte* to) {
  const std::size_t count = numbers.size();
  std::byte* scales = to + count;
  for (std::size_t first = 0; first < count; first += kScaled) {
    const std::size_t here = std::min(kScaled, count - first);
    // Arrays of their own, so that each loop is of vectors.
    std::array<float, kScaled> distances;
    std::array<std::int32_t, kScaled> rounded;
    std::array<std::int8_t, kScaled> steps;
    std::int32_t most_bits = 0;  // of the largest distance; positive numbers are in the order of their bits
    for (std::size_t i = 0; i < here; ++i) distances[i] = numbers[first + i] - known[first + i];
    for (std::size_t i = 0; i < here; ++i) {
      most_bits = std::max(most_bits, std::bit_cast<std::int32_t>(distances[i]) & 0x7fffffff);
    }
    const float most = std::bit_cast<float>(most_bits);
    if (!(most <= std::numeric_limits<float>::max())) return false;
    const float scale = most / static_cast<float>(kMostSteps);
    std::memcpy(scales, &scale, sizeof scale);
    scales += sizeof scale;
    const float divisor = scale > 0 ? scale : 1;
    for (std::size_t i = 0; i < here; ++i) {
      const float exact = distances[i] / divisor;
      rounded[i] = static_cast<std::int32_t>(exact + std::copysign(0.5f, exact));
    }
    for (std::size_t i = 0; i < here; ++i) {
      rounded[i] = std::clamp<std::int32_t>(rounded[i], -kMostSteps, kMostSteps);
      steps[i] = static_cast<std::int8_t>(rounded[i]);
    }
    for (std::size_t i = 0; i < here; ++i) known[first + i] += static_cast<float>(rounded[i]) * scale;
    std::memcpy(to + first, steps.data(), here);
  }
  return true;
}

bool add_difference(std::span<const std::byte> coded, std::span<float> known) {
  const std::size_t count = known.size();
  if (coded.size() != difference_bytes(count)) return false;
  const std::byte* scales = coded.data() + count;
  for (std::size_t first = 0; first < count; first += kScaled, scales += sizeof(float)) {
    float scale = 0;
    std::memcpy(&scale, scales, sizeof scale);
    const std::size_t end = std::min(first + kScaled, count);
    for (std::size_t i = first; i < end; ++i) {
      known[i] += static_cast<float>(static_cast<std::int8_t>(coded[i])) * scale;
    }
  }
  return true;
}

}  // namespace stretto
