#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace stretto {

/// The first of the nodes that Slurm writes as "n[1-3,07],m2" (SLURM_STEP_NODELIST), where rank 0 is unless tasks were
/// dealt out by hand. Empty: these are no nodes.
std::string first_node(std::string_view nodes);

/// The number of the node in a list that Slurm writes as "4(x2),3" (SLURM_STEP_TASKS_PER_NODE), counted from 0.
/// Nothing: this is no such list, or has no such node.
std::optional<int> tasks_on(int node, std::string_view tasks);

/// The number with which `words` begin, which they lose. Nothing: they begin with none.
std::optional<int> take_number(std::string_view& words);

}  // namespace stretto
