#pragma once

#include <string>

#include "stretto/collective/groups/groups.h"

namespace stretto::command {

/// For a person: the mixing numbers of all group sizes, a line for each number of ranks from `least` to `most`. Group
/// sizes that lie side by side and have the same are put together. At most 100 characters wide.
std::string mixing_table(int least, int most, GroupOrder order);

/// For a person: the mixing number of these groups, and the distance from the consensus after 0 to 12 rounds.
std::string distance_table(const Groups& groups);

}  // namespace stretto::command
