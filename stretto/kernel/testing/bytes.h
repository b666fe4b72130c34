#pragma once

#include <cstddef>
#include <vector>

namespace stretto {

/// For tests: where the numbers lie, as the kernels take them.
template <class T>
std::byte* bytes(std::vector<T>& numbers) {
  return reinterpret_cast<std::byte*>(numbers.data());
}

}  // namespace stretto
