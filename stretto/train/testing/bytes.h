#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <vector>

namespace stretto {

/// For tests: the numbers as the arithmetic on flat buffers takes them, and the types that it has for all of them.
template <class T>
std::span<std::byte> bytes(std::vector<T>& numbers) {
  return std::as_writable_bytes(std::span(numbers));
}
using Floats = testing::Types<float, double>;

}  // namespace stretto
