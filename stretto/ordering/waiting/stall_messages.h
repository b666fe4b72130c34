#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"

namespace stretto {

/// A member's question to another one, where it waits: what it has of a buffer of the plan.
struct StallQuestion {
  std::uint64_t number = 0;  ///< of the questions of the member that asks, from 0
  std::uint64_t step = 0;    ///< the open one of the member that asks
  std::uint64_t buffer = 0;  ///< its place in the plan
};

/// The other member's answer.
struct StallAnswer {
  /// In StallAnswer::place: the member lacks no tensor, but has not ended the step.
  static constexpr std::uint64_t kEndOfStep = ~std::uint64_t{0};

  std::uint64_t number = 0;  ///< of the question
  std::uint64_t step = 0;    ///< the open one of the member that answers
  bool holds_back = false;   ///< in the step that was asked for it has begun neither the buffer nor all before it
  bool ended = false;        ///< it submits nothing more in its open step
  bool drained = false;      ///< nor in any other
  std::uint64_t place = 0;   ///< holds_back: of the first tensor that it lacks, among all of the plan in order
  std::string lacks;         ///< holds_back: the name of that tensor
  std::string waits_for;     ///< for which tensor its application waits; empty: for none
  int waits_in = 0;          ///< the process set of that tensor
  Duration since{0};         ///< for how long its application does what it does

  /// "has computed for 9.8 s"; `asked`: what this answers, in process set `set`.
  std::string does(const StallQuestion& asked, int set) const;
};

using StallMessage = std::variant<StallQuestion, StallAnswer>;

/// As a message, of at most kMaxHeadBytes: long names are cut.
std::vector<std::byte> encode_stall(const StallMessage& message);
/// Errc::bad_input for anything but what encode_stall() makes.
Result<StallMessage> decode_stall(std::span<const std::byte> bytes);

}  // namespace stretto
