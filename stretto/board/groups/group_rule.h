#pragma once

#include <cstdint>
#include <span>

#include "stretto/transport/transport.h"

namespace stretto {

/// Who is together at a GroupBoard. Called from GroupBoard::step().
class GroupRule {
 public:
  virtual ~GroupRule() = default;

  struct Group {
    int number = 0;                ///< among those of the round
    std::span<const int> members;  ///< ascending; valid until the next call
  };
  /// This rank's group of a round; of a full one all ranks.
  virtual Group group(Round round) = 0;
  /// This rank sums the round with this model of `rank`, one of the group's.
  virtual void joined(Round, int /*rank*/, std::uint64_t /*version*/) {}
  /// This rank has made the sum the newest result of `rank`.
  virtual void completed(Round, int /*rank*/, std::uint64_t /*result*/) {}
};

}  // namespace stretto
