#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/ordering/orderer/graph.h"

namespace stretto {

static_assert(std::endian::native == std::endian::little, "messages are sent as they lie in memory");

/// Writes the parts of a message one after the other.
class ByteWriter {
 public:
  /// Writes 8 bytes.
  void number(std::uint64_t value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof value);
  }
  /// Writes the length, and the characters.
  void words(std::string_view value) {
    number(value.size());
    const auto* bytes = reinterpret_cast<const std::byte*>(value.data());
    bytes_.insert(bytes_.end(), bytes, bytes + value.size());
  }
  /// Writes how many there are, and each of them.
  void numbers(std::span<const std::uint64_t> values) {
    number(values.size());
    for (const std::uint64_t value : values) number(value);
  }
  /// Writes all but the process set, which the reader of the message knows.
  void tensor(const TensorDescription& tensor) {
    words(tensor.name);
    number(static_cast<std::uint64_t>(tensor.type) | static_cast<std::uint64_t>(tensor.op) << 8 |
           std::uint64_t{tensor.fuses} << 16);
    number(tensor.count);
  }
  std::vector<std::byte> take() { return std::move(bytes_); }  ///< hands out what was written

 private:
  std::vector<std::byte> bytes_;
};

/// Reads what a ByteWriter of another rank has written, or anything else: where a part is missing or impossible, good()
/// is false from then on, and what is read is empty.
class ByteReader {
 public:
  /// Reads `bytes`, which outlive it.
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  /// Reads what ByteWriter::number() has written, as do the next ones what the function of their name has.
  std::uint64_t number() {
    std::uint64_t value = 0;
    if (!has(sizeof value)) return 0;
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_ = bytes_.subspan(sizeof value);
    return value;
  }
  /// Reads how many parts follow, each of at least `least` bytes. More than there is room for is impossible.
  std::uint64_t count(std::size_t least) {
    const std::uint64_t value = number();
    if (value > bytes_.size() / least) good_ = false;
    return good_ ? value : 0;
  }
  std::string words() {
    const std::uint64_t size = count(1);
    std::string value(reinterpret_cast<const char*>(bytes_.data()), size);
    bytes_ = bytes_.subspan(size);
    return value;
  }
  std::vector<std::uint64_t> numbers() {
    std::vector<std::uint64_t> values(count(sizeof(std::uint64_t)));
    for (std::uint64_t& value : values) value = number();
    return values;
  }
  /// `set`: the process set that the message does not say.
  TensorDescription tensor(int set) {
    TensorDescription tensor{.name = words(), .set = set};
    const std::uint64_t kind = number();
    tensor.count = number();
    tensor.type = static_cast<DataType>(kind & 0xff);
    tensor.op = static_cast<ReduceOp>(kind >> 8 & 0xff);
    tensor.fuses = (kind >> 16) != 0;
    if (tensor.type > DataType::float16 || tensor.op > ReduceOp::max || kind >> 17 != 0 ||
        tensor.count > kMaxArrayBytes / size_of(tensor.type)) {
      good_ = false;
      return {.set = set};
    }
    return tensor;
  }
  bool good() const { return good_; }                     ///< every part that was read was there
  bool whole() const { return good_ && bytes_.empty(); }  ///< likewise, and no byte is left

 private:
  bool has(std::size_t bytes) {
    good_ = good_ && bytes_.size() >= bytes;
    return good_;
  }

  std::span<const std::byte> bytes_;
  bool good_ = true;
};

/// The bytes that a description takes at least: the length of its name, its type and operation, the number of elements.
inline constexpr std::size_t kLeastTensorBytes = 3 * sizeof(std::uint64_t);

}  // namespace stretto
