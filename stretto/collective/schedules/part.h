#pragma once

#include <algorithm>
#include <cstdint>

namespace stretto {

/// Elements of a vector.
struct Part {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t count() const { return end - begin; }
};

/// The i-th of n almost equal parts of `count` elements.
inline Part part(std::uint64_t count, int i, int n) {
  const auto parts = static_cast<std::uint64_t>(n);
  const auto begin_of = [&](std::uint64_t k) { return count / parts * k + std::min(k, count % parts); };
  return {begin_of(static_cast<std::uint64_t>(i)), begin_of(static_cast<std::uint64_t>(i) + 1)};
}

}  // namespace stretto
