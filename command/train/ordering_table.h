#pragma once

#include <span>
#include <string>

#include "command/train/run_set.h"

namespace stretto::command {

/// A table of the cost of ordering on each rank (docs/ordering.md), of the first run of each group, and how far apart
/// they came to their agreements. Empty where no group has an order.
std::string ordering_table(std::span<const RunGroup> groups);

}  // namespace stretto::command
