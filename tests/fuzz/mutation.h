#pragma once

#include <span>
#include <string>

#include "stretto/base/random.h"

namespace stretto::fuzz {

/// One of `inputs`, changed in one to a few places: bits, bytes, numbers, pieces moved, doubled, dropped, or taken from
/// another input. Requires: inputs that are not empty.
std::string mutated(std::span<const std::string> inputs, Random& random);

}  // namespace stretto::fuzz
