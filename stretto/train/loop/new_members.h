#pragma once

#include <cstdint>
#include <vector>

namespace stretto {

/// The members of a world of a job whose members change, as one of its ranks sees them.
struct NewMembers {
  int rank = 0;                       ///< of this process, among them
  int ranks = 1;                      ///< how many they are
  std::vector<std::uint64_t> joined;  ///< numbers, since this rank's world before; in its first of all that are there
  std::vector<std::uint64_t> lost;    ///< the same of those that are there no more
  std::vector<std::uint64_t> left;    ///< the same, by their own wish
};

}  // namespace stretto
