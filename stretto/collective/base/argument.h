#pragma once

#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>

#include "stretto/base/data_type.h"
#include "stretto/engine/engine.h"

namespace stretto {

/// Memory passed to a collective for one round, with the type of its elements. Does not own it.
class Argument {
 public:
  /// Read and not written.
  template <std::ranges::contiguous_range R>
  static Argument in(const R& range) {
    using T = std::ranges::range_value_t<R>;
    return {kDataTypeOf<T>, std::ranges::size(range), const_cast<T*>(std::ranges::data(range)), true};
  }
  /// Written; its content before does not matter.
  template <std::ranges::contiguous_range R>
  static Argument out(R&& range) {
    using T = std::ranges::range_value_t<R>;
    return {kDataTypeOf<T>, std::ranges::size(range), std::ranges::data(range), false};
  }
  /// As in(), for `count` elements of `type` at `data`: memory whose type is known at run time only.
  static Argument in(DataType type, std::uint64_t count, std::byte* data) { return {type, count, data, true}; }
  /// As out(), for memory whose type is known at run time only.
  static Argument out(DataType type, std::uint64_t count, std::byte* data) { return {type, count, data, false}; }
  /// Read and written.
  template <std::ranges::contiguous_range R>
  static Argument in_out(R&& range) {
    using T = std::ranges::range_value_t<R>;
    return {kDataTypeOf<T>, std::ranges::size(range), std::ranges::data(range), true};
  }

  DataType type() const { return type_; }         ///< of an element
  std::uint64_t count() const { return count_; }  ///< elements
  RoundBuffer memory() const { return memory_; }  ///< as the engine takes it
  /// The same memory, as the same type, with the same content or none.
  friend bool operator==(const Argument& a, const Argument& b) {
    return a.type_ == b.type_ && a.count_ == b.count_ && a.memory_.data == b.memory_.data &&
           a.memory_.present == b.memory_.present;
  }

 private:
  Argument(DataType type, std::uint64_t count, void* data, bool present)
      : type_(type), count_(count), memory_{address_of(data), present} {}

  /// Ranges of no elements have an address, too: a round's buffer without one would have no payload.
  static std::byte* address_of(void* data) {
    static std::byte nothing{};
    return data != nullptr ? static_cast<std::byte*>(data) : &nothing;
  }

  DataType type_;
  std::uint64_t count_;
  RoundBuffer memory_;
};

}  // namespace stretto
