#pragma once

#include <cstdint>
#include <string>

#include "stretto/collective/groups/grid_layout.h"

namespace stretto::command {

/// For a person: who sits where, the lines, hops, and what a round of each line costs with models of so many float32.
std::string grid_text(const GridLayout& layout, std::uint64_t elements);

}  // namespace stretto::command
