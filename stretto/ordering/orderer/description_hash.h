#pragma once

#include <cstdint>
#include <string_view>

#include "stretto/ordering/orderer/graph.h"

namespace stretto {

/// The hash of what `hash` stands for, followed by a word: two different sequences hardly share one.
std::uint64_t hashed(std::uint64_t hash, std::uint64_t word);
/// The same, followed by words.
std::uint64_t hashed(std::uint64_t hash, std::string_view words);
/// The same, followed by a description but for its process set.
std::uint64_t hashed(std::uint64_t hash, const TensorDescription& tensor);

}  // namespace stretto
