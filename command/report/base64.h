#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace stretto::command {

/// RFC 4648, with padding: what a page decodes into an array of numbers without reading them one by one.
std::string base64(std::span<const std::byte> bytes);

/// The numbers as they lie in memory; x86 and ARM are little-endian, as the page expects it.
template <class Number>
std::string base64_of(std::span<const Number> numbers) {
  return base64(std::as_bytes(numbers));
}

}  // namespace stretto::command
