#pragma once

#include <span>

#include "stretto/kernel/combine.h"

namespace stretto {

/// The fixed tree over `ranks` ranks (docs/protocol.md, Bits) where some have brought nothing, which changes nothing,
/// and some more than one source, which are added first. `source_ranks`: whose each source is, ascending.
Combination fixed_tree(int ranks, std::span<const int> source_ranks);

}  // namespace stretto
