#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/ordering/orderer/graph.h"

namespace stretto {

/// A member's report to the first member of its process set, in a gather.
struct MemberReport {
  bool ended = false;                       ///< it submits nothing more in this step
  bool drained = false;                     ///< nor in any other
  std::vector<std::uint64_t> words;         ///< without a cache: what it would have brought to the sync
  std::vector<TensorDescription> requests;  ///< submitted, and not asked for before
  std::vector<std::string> pending;         ///< where a report of who waits is made: all that it has submitted
  std::string waits_for;                    ///< for which tensor its application waits; empty: for none of this set

  std::vector<std::byte> encode() const;  ///< as a message
  /// Errc::bad_input for anything but what encode() makes. `set`: of the tensors.
  static Result<MemberReport> decode(std::span<const std::byte> bytes, int set);
};

/// The first member's answer to all.
struct CoordinatorAnswer {
  std::vector<std::uint64_t> words;        ///< without a cache: of all members, by bitwise AND
  std::vector<TensorDescription> tensors;  ///< submitted everywhere: reduced in this order
  std::optional<Error> error;              ///< the job fails with it

  std::vector<std::byte> encode() const;  ///< as a message
  /// Errc::bad_input for anything but what encode() makes. `set`: of the tensors.
  static Result<CoordinatorAnswer> decode(std::span<const std::byte> bytes, int set);
};

}  // namespace stretto
